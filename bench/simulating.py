"""What simulating costs: a case beside the monolith's own compute on the same microbatches.

Both are run in turn in one process, on one thread, and their processor time is compared: the
medians of the ratios are what is printed. The hanging case is the same one with blocking calls.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

from harness.case import Case
from harness.execute import program_of
from harness.parity.shape import workload_of
from harness.targets import parse_target
from harness.worlds import World, open_world
from pipeline.comms import Comms
from pipeline.executor import run_step
from pipeline.lower import get_policy, lower
from pipeline.model import Batch, Monolith, chunk_sizes
from pipeline.plan import build_plan
from pipeline.stage import Stage

CHUNKS = 8


def hanging_step(stage: Stage, comms: Comms, batch: Batch, chunks: int) -> object:
    """Run 1F1B with blocking calls: neighbours send to each other, and wait for ever."""
    policy = get_policy("blocking")
    row = lower(build_plan("1f1b", comms.world_size, chunks), policy).rows[comms.rank]
    return run_step(row, policy, stage, comms, batch, chunks)


def case_of(world: int, width: int, steps: int, optimizer: str) -> Case:
    """Return the case that is measured, of the seed's workload."""
    case = Case("1f1b", world, chunks=CHUNKS, batch=32, layers=16, width=width, steps=steps)
    return case.with_(dtype="float32", optimizer=optimizer, workload="seed", backend="sim")


def compute_of(case: Case) -> Callable[[], object]:
    """Return the forwards and backwards of a case's microbatches on one model, with no pipeline."""
    model = Monolith(workload_of(case))
    sizes = chunk_sizes(case.batch or 1, CHUNKS)

    def run() -> None:
        for _ in range(case.steps or 1):
            model.zero_grad()
            model.step_microbatched(range(CHUNKS), sizes)

    return run


def simulated(world: World, case: Case, *, hangs: bool = False) -> Callable[[], object]:
    """Return a run of the case on simulated ranks."""
    target = parse_target(hanging_step if hangs else "1f1b", for_command="check")
    program = program_of(target, case)

    def run() -> None:
        ending = world.run(program, case.world, timeout=60).ending
        if ending != ("stuck" if hangs else "finished"):
            raise SystemExit(f"{case} ended otherwise: {ending}")

    return run


def spent(run: Callable[[], object]) -> float:
    """Return the processor time that it takes, of all threads, in milliseconds."""
    started = time.process_time()
    run()
    return (time.process_time() - started) * 1000


def measure(runs: int, steps: int, optimizer: str) -> list[dict[str, object]]:
    """Return what each case costs, beside the compute of the same run."""
    rows: list[dict[str, object]] = []
    shapes = [(4, 128, False), (3, 128, False), (2, 128, False), (4, 128, True), (4, 8, False)]
    with open_world("sim") as world:
        for size, width, hangs in shapes:
            case = case_of(size, width, steps, optimizer)
            ours, alone = simulated(world, case, hangs=hangs), compute_of(case)
            pairs = [(spent(ours), spent(alone)) for _ in range(runs + 3)][3:]  # warm
            rows.append(
                {
                    "world": size,
                    "width": width,
                    "hangs": hangs,
                    "case_ms": round(statistics.median(pair[0] for pair in pairs), 1),
                    "compute_ms": round(statistics.median(pair[1] for pair in pairs), 1),
                    "ratio": round(statistics.median(a / b for a, b in pairs), 2),
                }
            )
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--optimizer", choices=("sgd", "adam"), default="sgd")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = measure(options.runs, options.steps, options.optimizer)
    print(f"1f1b, {CHUNKS} chunks, {options.steps} steps, {options.optimizer}")
    print("world  width  case ms  compute ms  ratio")
    for row in rows:
        print(
            f"{row['world']:>5}  {row['width']:>5}  {row['case_ms']:>7}  {row['compute_ms']:>10}  "
            f"{row['ratio']:>5}{'  (hangs)' if row['hangs'] else ''}"
        )
    print(json.dumps(rows))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
