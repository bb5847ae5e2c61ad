"""The case that planted faults are run in, and the one finding that comes of it."""

from __future__ import annotations

from harness.case import Case
from harness.checkers.parity import check
from harness.findings import Finding
from harness.parity.program import Step
from tests.parity.threads_world import STEP, run


def case_of(
    world: int = 3,
    chunks: int = 4,
    batch: int = 8,
    dtype: str = "float64",
    workload: str = "conditioned",
    optimizer: str = "sgd",
    steps: int = 2,
) -> Case:
    return Case(
        "step.py:step",
        world,
        chunks=chunks,
        batch=batch,
        layers=2 * world + 1,
        width=8,
        dtype=dtype,
        steps=steps,
        optimizer=optimizer,
        workload=workload,
    )


def only(case: Case, step: Step) -> Finding:
    (finding,) = check(case, run(case, step), STEP)
    return finding
