"""The cases of a campaign, in their order: corners, then drawn ones, each once, by the seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial

from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import SearchStrategy

from harness import nemesis
from harness.case import Case
from harness.options import DEFAULT_CHUNKS, DEFAULT_WORLDS
from harness.strategies import DELAYS, Refuses, cases, corners
from harness.targets import Target, torch_classes
from pipeline.lower import DEFAULT_POLICY
from pipeline.schedules import SCHEDULES

DRAWN_AT_ONCE = 40
DRAW_BYTES = 256  # more than a case takes


@dataclass(frozen=True, slots=True)
class Limits:
    """What a campaign may try, and for how long; ``timeout`` is per case, without progress."""

    worlds: tuple[int, ...] = DEFAULT_WORLDS
    chunks: tuple[int, ...] = DEFAULT_CHUNKS
    cases: int = 40
    seconds: float | None = None
    timeout: float = 60.0
    seed: int = 0
    policy: str | None = None
    semantics: str | None = None
    capacity: str | None = None
    nemesis: tuple[str, ...] = ()


def stream(target: Target, limits: Limits, backend: str) -> Iterator[Case]:
    """Yield a campaign's cases: corners, then drawn ones, each once, decided by the seed."""
    policies: tuple[str | None, ...] = (None,)
    if target.is_plan:
        policies = (limits.policy,) if limits.policy else _policies(target)
    ranges = (limits.worlds, limits.chunks, policies, backend)
    seen: set[Case] = set()
    how = {"semantics": limits.semantics, "capacity": limits.capacity}
    depth, refuses, even = target.depth, _refusal(target), target.needs_even_batches
    for case in corners(target.text, *ranges, limits.seed, depth, refuses, even):
        case = _applying(case, target)
        seen.add(case)
        yield _injected(case.with_(**how), limits)
    delays = DELAYS if backend != "sim" else (0,)  # its interleavings are drawn instead
    strategy = cases(target.text, *ranges, delays, depth, refuses, even)
    batch, dry = 0, 0
    while dry < 3:
        before = len(seen)
        for drawn in draw(strategy, DRAWN_AT_ONCE, limits.seed * 1_000_003 + batch):
            case = _applying(drawn, target)
            if case not in seen:
                seen.add(case)
                yield _injected(case.with_(**how), limits)
        batch += 1
        dry = dry + 1 if len(seen) == before else 0


def _refusal(target: Target) -> Refuses | None:
    """Return what says which shapes a target refuses, as far as that is known beforehand."""
    if target.kind == "torch" and target.module in torch_classes.MODULES:
        from harness.torch_pipelining import refusal

        return cache(partial(refusal, target.function))  # a shape is asked by making it
    return SCHEDULES[target.text].refusal if target.kind == "schedule" else None


def _applying(case: Case, target: Target) -> Case:
    """Return the case without what means nothing for a user's own model."""
    if not target.without:
        return case
    precise = "float32" if case.dtype in ("bfloat16", "float16") else case.dtype
    return case.with_(**({"dtype": precise} | dict.fromkeys(target.without)))


def _injected(case: Case, limits: Limits) -> Case:
    """Return the case with faults from outside, drawn by its seed, where they are wanted."""
    if not limits.nemesis:
        return case
    reach = 2 * (case.chunks or 1)
    drawn = nemesis.draw(limits.nemesis, limits.seed * 1009 + case.seed, case.world, reach)
    case = case.with_(nemesis=drawn)
    return nemesis.restricted(case)


def _policies(target: Target) -> tuple[str | None, ...]:
    # Others hang, under some rules, and a schedule is not to blame for that. Which one suits a
    # plan of the user's own depends on whether it has sends and receives already.
    return (DEFAULT_POLICY,) if target.kind == "schedule" else (None,)


def draw(strategy: SearchStrategy[Case], count: int, number: int) -> list[Case]:
    """Draw cases, the same ones for the same number.

    From bytes of our own: Hypothesis's usual generation also depends on which modules the process
    has loaded (it takes constants from them), so that the command and pytest would differ.
    """
    found: list[Case] = []

    @settings(database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def collect(case: Case) -> None:
        found.append(case)

    source = random.Random(number)
    for _ in range(count):
        collect.hypothesis.fuzz_one_input(source.randbytes(DRAW_BYTES))  # type: ignore[attr-defined]
    return found
