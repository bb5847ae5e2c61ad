"""Time of one warm case (a fresh process group, a training step, parity) on real gloo ranks."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

from harness.case import Case
from harness.execute import execute
from harness.targets import parse_target
from harness.worlds import open_world


def measure(runs: int, worlds: list[int], chunks: int) -> list[dict[str, object]]:
    """Return seconds per case for each world size."""
    target = parse_target("1f1b", for_command="check")
    rows: list[dict[str, object]] = []
    with open_world("gloo") as world:
        for size in worlds:
            case = Case("1f1b", size, chunks=chunks, batch=32, layers=16, width=128, steps=1)
            case = case.with_(dtype="float32", optimizer="adam", workload="seed", policy="async")
            seconds = []
            for run in range(runs + 2):
                started = time.perf_counter()
                result = execute(target, case.with_(seed=42), world, 60.0)
                if result.findings:
                    raise SystemExit(f"a finding on a correct schedule: {result.findings[0]}")
                if run >= 2:  # the first ones fork the ranks and draw the reference
                    seconds.append(time.perf_counter() - started)
            rows.append(
                {
                    "world": size,
                    "chunks": chunks,
                    "runs": runs,
                    "median_s": round(statistics.median(seconds), 4),
                    "min_s": round(min(seconds), 4),
                    "max_s": round(max(seconds), 4),
                }
            )
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--worlds", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--chunks", type=int, default=8)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = measure(options.runs, options.worlds, options.chunks)
    print("world  chunks  median s   min s   max s")
    for row in rows:
        print(
            f"{row['world']:>5}  {row['chunks']:>6}  {row['median_s']:>8}  "
            f"{row['min_s']:>6}  {row['max_s']:>6}"
        )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
