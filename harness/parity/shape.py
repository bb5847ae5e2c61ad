"""From a case to the workload that it decides."""

from __future__ import annotations

from dataclasses import replace

import torch

from harness.case import Case
from harness.targets import Target
from pipeline.model import Workload
from pipeline.own_model import OwnWorkload, Parts

DTYPES: dict[str, torch.dtype] = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
CLASSES = {"conditioned": 8, "seed": 2}
# Adam's update hardly depends on a gradient's scale. Plain SGD's does, and at a large rate the
# parameters show it.
LEARNING_RATE = {"sgd": 0.5, "adam": 0.01}


def complete(case: Case) -> Case:
    """Fill in what a case line may leave out, each value decided by the others."""
    chunks = case.chunks or case.world
    return case.with_(
        chunks=chunks,
        batch=case.batch or 2 * chunks,
        layers=case.layers or 2 * case.world,
        width=case.width or 16,
        dtype=case.dtype or "float64",
        steps=case.steps or 2,
        optimizer=case.optimizer or "sgd",
        workload=case.workload or "conditioned",
    )


def workload_of(case: Case) -> Workload:
    """Return the workload of a case; ValueError for a shape that cannot be."""
    case = complete(case)
    assert case.layers
    assert case.width
    assert case.batch
    assert case.dtype
    assert case.workload
    assert case.optimizer
    return Workload(
        kind=case.workload,
        layers=case.layers,
        width=case.width,
        classes=CLASSES[case.workload],
        batch=case.batch,
        dtype=DTYPES[case.dtype],
        seed=case.seed,
        lr=LEARNING_RATE[case.optimizer],
        optimizer=case.optimizer,
    )


def own_stage_workload(workload: Workload) -> Workload:
    """Return the workload for a target that builds its stages itself.

    Always the seed's model: it is PyTorch's default initialisation, in the order of the layers,
    which is all that a user's own code can be asked to reproduce.
    """
    return replace(workload, kind="seed", classes=CLASSES["seed"])


def users_workload(target: Target, parts: Parts, case: Case, stages: int) -> OwnWorkload:
    """Return the workload of a case whose model is the user's own, cut into so many stages.

    In float32 where the model runs in nothing else.
    """
    alone = "dtype" in target.without
    case = complete(case.with_(dtype="float32") if alone else case)
    assert case.batch
    assert case.dtype
    assert case.optimizer
    return OwnWorkload(
        parts=parts,
        stages=stages,
        batch=case.batch,
        dtype=DTYPES[case.dtype],
        seed=case.seed,
        lr=LEARNING_RATE[case.optimizer],
        optimizer=case.optimizer,
        runs_in_float64=not alone,
    )
