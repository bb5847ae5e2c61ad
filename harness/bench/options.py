"""What a bench may be asked for, and the refusal of what cannot be, in one line each."""

from __future__ import annotations

from dataclasses import dataclass

from harness.case import UsageError
from harness.options import Numbers, backend_name, duration, numbers, whole

BACKENDS = ("sim", "gloo", "nccl")
MAX_WORLD = 8  # the case's model has as many layers
DEFAULT_WORLDS = (2, 3, 4)
DEFAULT_CASES = 20
DEFAULT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """What is measured: ``seconds`` is the limit of one figure, start-up counted."""

    backends: tuple[str, ...] = ("sim", "gloo")
    worlds: tuple[int, ...] = DEFAULT_WORLDS
    cases: int = DEFAULT_CASES
    seconds: float = DEFAULT_SECONDS


def bench_options(
    *,
    backend: str = "sim,gloo",
    worlds: Numbers = DEFAULT_WORLDS,
    cases: int | str = DEFAULT_CASES,
    seconds: float | str = DEFAULT_SECONDS,
) -> BenchOptions:
    """Validate what a bench was asked for; UsageError for the first thing that cannot be."""
    return BenchOptions(
        backends=_backends(backend),
        worlds=numbers(worlds, "--worlds", MAX_WORLD),
        cases=whole(cases, "--cases", 1),
        seconds=duration(seconds, "--seconds"),
    )


def _backends(given: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in given.split(",")))
    for name in names:
        if not name:
            raise UsageError(f"--backend {given!r}: give a list like {','.join(BACKENDS[:2])}")
        if name not in BACKENDS:
            backend_name(name)  # says which there are
    return names
