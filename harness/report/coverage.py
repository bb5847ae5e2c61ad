"""What the cases of a report covered, in words, and what a pass leaves open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.findings import Report

# The key in ``report.tried`` → its words; other keys are shown by their own names.
_NAMES = {
    "world": "worlds",
    "samples": "samples a microbatch",
    "batch": "batches",
    "dtype": "dtypes",
    "optimizer": "optimizers",
    "workload": "workloads",
    "delay": "delays of up to (ms)",
    "policy": "policies",
    "not_on_gloo": "not compared with gloo, for",
}
_HIDDEN = ("trace", "virtual_time", "messages", "injected")
_RUNS = {
    "runs": "run {} times in all semantics and interleavings",
    "on_gloo": "{} on real gloo ranks as well",
    "agreed": "{} of them the same",
}
_COUNTS = {
    "uneven_batches": "uneven batches in {}",
    "uneven_layers": "uneven layers in {}",
}
_COMPARED = {
    "compared": "in {}",
    "bitwise": "bit for bit in {}",
}


def describe_tried(tried: dict[str, Any]) -> str:
    """Return ``worlds 1..6; chunks 1..12; dtypes float32, float64; uneven batches in 7 cases``."""
    pieces = [
        f"{_NAMES.get(name, name).replace('_', ' ')} {_values(value)}"
        for name, value in tried.items()
        if value not in (None, [], (), "") and name not in (*_COUNTS, *_COMPARED, *_HIDDEN, *_RUNS)
    ]
    return "; ".join([*pieces, *_counts(tried, _COUNTS)])


def describe_runs(tried: dict[str, Any]) -> str:
    """Return how often the cases were run, and on which ranks; may be empty."""
    if tried.get("runs", 0) <= 1 and "on_gloo" not in tried:
        return ""
    return ", ".join(words.format(tried[name]) for name, words in _RUNS.items() if name in tried)


def describe_time(tried: dict[str, Any]) -> str:
    """Return a run's figures in virtual time; empty where nothing was computed."""
    time = tried.get("virtual_time")
    if time is None:
        return ""
    ranks = time["ranks"]
    idle = ", ".join(f"{rank['idle']:g}" for rank in ranks)
    peaks = ", ".join(str(rank["peak_in_flight"]) for rank in ranks)
    bubble = time["bubble"]["of_total"]
    return (
        f"makespan {time['makespan']:g}, idle {idle} (bubble {bubble:.1%} of the total), "
        f"in flight at most {peaks}, by rank; costs {time['costs']}"
    )


def describe_compared(tried: dict[str, Any]) -> str:
    """Return how the numbers were compared: ``in 40 cases, bit for bit in 38``; may be empty."""
    return ", ".join(_counts(tried, _COMPARED))


def _counts(tried: dict[str, Any], phrases: dict[str, str]) -> list[str]:
    """Say how many cases each phrase holds for; none, for counts that are zero."""
    return [
        phrase.format(f"{count} case{'' if count == 1 else 's'}")
        for name, phrase in phrases.items()
        if (count := tried.get(name))
    ]


def _values(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, list | tuple | set | frozenset):
        return str(value)
    if all(isinstance(item, int) for item in value):
        return ranges(sorted(set(value)))
    return ", ".join(str(item) for item in value)


def ranges(numbers: Sequence[int]) -> str:
    """Write sorted numbers as the command's options take them: ``1..4,8``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    pieces = (f"{run[0]}..{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs)
    return ",".join(pieces)


def not_proved(report: Report) -> str:
    """Say what a clean report does not show."""
    other = {
        "sim": "real NCCL, whose semantics are modelled",
        "nccl": "other NCCL settings",
    }.get(report.backend, "NCCL's ordering and capacity")
    if report.command == "check":
        return f"shapes and timings not tried, and {other}; another --seed draws others"
    return f"other timings of the ranks, and {other}; this is one run"
