"""What analysing a plan costs at scale: validation, deadlocks, memory and timing without a run.

Each schedule and size is a process of its own, whose peak memory is told. Times are seconds of
processor time. Beside it torch's own dry run, `_add_send_recv` and `_simulate_comms_compute`, of
the same plan, where torch has the schedule: it answers for one semantics, in which sends end at
once, what `lower`, `timing`, `validate` and `deadlock` do here under each; the ratio is to these.
"""

from __future__ import annotations

import argparse
import json
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pipeline.schedules import SCHEDULES

SIZES = ((64, 256), (256, 1024))
HUGE = (1024, 4096)
THEIRS = ("gpipe", "1f1b", "interleaved", "zb-h1", "zbv", "dualpipev")
"""Those that torch has: its dry run takes their rows."""
PHASES = ("generate", "validate", "memory", "timing", "lower", "deadlock")
T = TypeVar("T")


def timed(spent: dict[str, float], phase: str, run: Callable[[], T]) -> T:
    """Run something, and note the processor time that it takes."""
    started = time.process_time()
    result = run()
    spent[phase] = time.process_time() - started
    return result


def ours(name: str, world: int, chunks: int) -> dict[str, Any]:
    """Analyse one plan, and return what it took."""
    from harness.hazards.messages import Messages
    from harness.hazards.stalls import find_stalls
    from pipeline.lower import DEFAULT_POLICY, lower
    from pipeline.plan import build_plan, peak_in_flight
    from pipeline.problems import find_problems
    from pipeline.walk import walk

    spent: dict[str, float] = {}
    plan = timed(spent, "generate", lambda: build_plan(name, world, chunks))
    # One walk is what validation and timing share: it counts as the timing.
    walked = timed(spent, "timing", lambda: walk(plan))
    problems = timed(spent, "validate", lambda: find_problems(plan, walked))
    timed(spent, "memory", lambda: peak_in_flight(plan))
    lowered = timed(spent, "lower", lambda: lower(plan))
    stalls = timed(
        spent, "deadlock", lambda: find_stalls(Messages(lowered, DEFAULT_POLICY)).values()
    )
    if problems or any(stalls):
        raise SystemExit(f"{name} {world} x {chunks}: a fault in a correct schedule")
    return {
        "actions": plan.coded.size,
        "lowered": lowered.coded.size,
        "seconds": spent,
        "total_s": sum(spent.values()),
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def theirs(name: str, world: int, chunks: int) -> dict[str, Any]:
    """Let torch place the sends and receives of the same plan, and simulate it."""
    from torch.distributed.pipelining import schedules

    from pipeline.plan import build_plan

    plan = build_plan(name, world, chunks)
    parse = schedules._Action.from_str
    order = {rank: [parse(str(action)) for action in row] for rank, row in enumerate(plan.rows)}
    spent: dict[str, float] = {}
    lowered = timed(
        spent, "lower", lambda: schedules._add_send_recv(order, plan.rank_of, plan.stages)
    )
    timed(
        spent,
        "simulate",
        lambda: schedules._simulate_comms_compute(lowered, plan.rank_of, plan.stages),
    )
    return {"seconds": spent, "total_s": sum(spent.values())}


def in_a_process(what: str, name: str, size: tuple[int, int], limit: int) -> dict[str, Any]:
    """Measure in a process of its own; why not, if it fails or takes more processor time."""
    command = [sys.executable, __file__, "--one", what, name, *map(str, size), str(limit)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == -signal.SIGXCPU:
        return {"failed": f"over {limit} s"}
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["?"])[-1]}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def measure(name: str, size: tuple[int, int], limit: int, torch_limit: int) -> dict[str, Any]:
    """Return the figures of one schedule and size."""
    row: dict[str, Any] = {"schedule": name, "world": size[0], "chunks": size[1]}
    if refusal := SCHEDULES[name].refusal(*size):
        return row | {"failed": refusal}
    row |= in_a_process("ours", name, size, limit)
    if torch_limit and name in THEIRS and "failed" not in row:
        row["torch"] = peer = in_a_process("theirs", name, size, torch_limit)
        same = sum(row["seconds"][phase] for phase in ("validate", "timing", "lower", "deadlock"))
        if "failed" not in peer and same:  # under a limit the clock may tick in milliseconds
            row["torch_ratio"] = peer["total_s"] / same
    return row


HEAD = f"{'schedule':<13}{'size':>12}{'actions':>10}" + "".join(f"{p:>10}" for p in PHASES)
HEAD += f"{'total s':>10}{'peak MB':>9}{'torch s':>14}{'ratio':>7}"


def line_of(row: dict[str, Any]) -> str:
    """Print one row of the table."""
    begin = f"{row['schedule']:<13}{row['world']:>6} x{row['chunks']:>5}"
    if "failed" in row:
        return f"{begin}  {row['failed']}"
    spent = "".join(f"{row['seconds'][phase]:>10.2f}" for phase in PHASES)
    peer = row.get("torch", {})
    beside = f"{peer['total_s']:.2f}" if "total_s" in peer else peer.get("failed", "-")
    ratio = f"{row['torch_ratio']:.1f}" if "torch_ratio" in row else "-"
    tail = f"{row['total_s']:>10.2f}{row['rss_mb']:>9}{beside:>14.12}{ratio:>7}"
    return f"{begin}{row['actions']:>10}{spent}{tail}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("schedules", nargs="*", default=list(SCHEDULES), metavar="SCHEDULE")
    parser.add_argument("--size", nargs=2, type=int, action="append", metavar=("WORLD", "CHUNKS"))
    parser.add_argument("--huge", action="store_true", help=f"{HUGE[0]} x {HUGE[1]} too")
    parser.add_argument("--limit", type=int, default=3600, help="seconds for one plan")
    parser.add_argument("--torch-limit", type=int, default=120, help="for torch; 0: without it")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument("--one", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        what, name, world, chunks, limit = options.one
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 5))
        found = (ours if what == "ours" else theirs)(name, int(world), int(chunks))
        print(json.dumps(found))
        return
    sizes = [tuple(size) for size in options.size or SIZES] + [HUGE] * options.huge
    rows = []
    print(HEAD)
    for size in sizes:
        for name in options.schedules:
            rows.append(measure(name, size, options.limit, options.torch_limit))
            print(line_of(rows[-1]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
