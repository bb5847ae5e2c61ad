"""What recording adds to a training step: steps with and without it alternate on the same ranks."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from harness.worlds import Program, RankContext, open_world


@dataclass(frozen=True)
class Paired:
    """Runs pairs of steps, one recorded and one not, and times both."""

    schedule: str
    chunks: int
    pairs: int

    def __call__(self, context: RankContext) -> list[tuple[float, float]]:
        """Return (recorded, unrecorded) seconds of each pair on this rank."""
        import torch
        import torch.distributed as dist

        from harness import recorder as recording
        from pipeline.comms import Comms
        from pipeline.executor import run_step
        from pipeline.lower import get_policy, lower
        from pipeline.model import Workload
        from pipeline.plan import build_plan
        from pipeline.stage import build_batch, build_stage

        torch.set_num_threads(1)
        workload = Workload()
        stage = build_stage(workload, context.rank, context.world_size, context.device)
        batch = build_batch(workload, stage)
        comms = Comms(workload.dtype, context.device)
        policy = get_policy("async")
        row = lower(build_plan(self.schedule, context.world_size, self.chunks), policy).rows[
            context.rank
        ]
        recorder = recording.active()

        def step() -> float:
            dist.barrier()
            started = time.perf_counter()
            run_step(row, policy, stage, comms, batch, self.chunks)
            return time.perf_counter() - started

        for _ in range(10):
            step()
        times = []
        for pair in range(self.pairs):
            taken = {}
            for recorded in (True, False) if pair % 2 else (False, True):
                recording.activate(recorder if recorded else None)
                taken[recorded] = step()
            times.append((taken[True], taken[False]))
        recording.activate(recorder)
        return times


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--world", type=int, default=4)
    parser.add_argument("--chunks", type=int, default=8)
    parser.add_argument("--pairs", type=int, default=300)
    parser.add_argument("--schedule", default="1f1b")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    entry = Paired(options.schedule, options.chunks, options.pairs)
    with open_world("gloo") as world:
        outcome = world.run(Program(entry), options.world, timeout=120)
    slowest = [max(rank.result[pair] for rank in outcome.ranks) for pair in range(options.pairs)]
    with_it = statistics.median(recorded for recorded, _ in slowest)
    without = statistics.median(unrecorded for _, unrecorded in slowest)
    ratio = statistics.median(recorded / unrecorded for recorded, unrecorded in slowest)
    figures = {
        "world": options.world,
        "chunks": options.chunks,
        "pairs": options.pairs,
        "step_ms_recorded": round(with_it * 1000, 3),
        "step_ms_unrecorded": round(without * 1000, 3),
        "median_ratio": round(ratio, 4),
    }
    for name, value in figures.items():
        print(f"{name:>20}  {value}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
