"""From a failing case to the smallest one that fails for the same reason.

Every try runs real ranks, so that a generic shrinker's hundreds are not affordable. A case is a
dozen small numbers with a known simplest value each: first all of them at once, then each alone,
until none can be made simpler. Deterministic; what it returns is minimal in every single value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from harness import nemesis
from harness.case import Case

Fails = Callable[[Case], bool]
"""Whether a case fails for the same reason; False as well when there is no time to try."""


def shrink(case: Case, fails: Fails) -> Case:
    """Return the smallest failing case found; ``case`` itself must fail."""
    tried = {case}

    def smaller(candidate: Case) -> bool:
        if candidate in tried:
            return False
        tried.add(candidate)
        return fails(candidate)

    for candidate in _leaps(case):
        if smaller(candidate):
            case = candidate
            break
    before = None
    while case != before:
        before = case
        for simpler in (_injections, _ranks, _chunks, _settings, _sizes):
            case = _first(simpler, case, smaller)
    return case


def _first(simpler: Callable[[Case], Iterator[Case]], case: Case, smaller: Fails) -> Case:
    """Follow one kind of simpler cases as far as it goes."""
    while (found := next(filter(smaller, simpler(case)), None)) is not None:
        case = found
    return case


def _leaps(case: Case) -> Iterator[Case]:
    """Yield the simplest cases of all, by how many ranks and chunks they have."""
    plain = _plain(case)
    for world, chunks in ((1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 2), (3, 3)):
        if world <= case.world and chunks <= (case.chunks or 1):
            for batch in sorted({chunks, chunks + 1}):
                small = plain.with_(world=world, chunks=chunks, batch=batch, layers=world)
                if batch <= (case.batch or 1) and world <= (case.layers or 1):
                    yield small


def _plain(case: Case) -> Case:
    return case.with_(
        width=min(case.width or 4, 4),
        dtype="float64",
        steps=1,
        optimizer="sgd",
        workload="conditioned",
        delay=0,
        seed=0,
    )


def _injections(case: Case) -> Iterator[Case]:
    if case.nemesis is not None:
        yield from nemesis.simpler(case)


def _ranks(case: Case) -> Iterator[Case]:
    layers = case.layers or 1
    for world in range(1, case.world):
        yield case.with_(world=world, layers=max(world, layers - (case.world - world)))
        yield case.with_(world=world)


def _chunks(case: Case) -> Iterator[Case]:
    chunks, batch = case.chunks or 1, case.batch or 1
    for fewer in range(1, chunks):
        yield case.with_(chunks=fewer, batch=max(fewer, batch - (chunks - fewer)))
        yield case.with_(chunks=fewer, batch=fewer)


def _settings(case: Case) -> Iterator[Case]:
    for name, simplest in (
        ("delay", 0),
        ("steps", 1),
        ("dtype", "float64"),
        ("optimizer", "sgd"),
        ("workload", "conditioned"),
    ):
        if getattr(case, name) != simplest:
            yield case.with_(**{name: simplest})
    if (case.steps or 1) > 2:
        yield case.with_(steps=2)


def _sizes(case: Case) -> Iterator[Case]:
    batch, layers = case.batch or 1, case.layers or 1
    for name, now, least in (("batch", batch, case.chunks or 1), ("layers", layers, case.world)):
        for value in _between(least, now):
            yield case.with_(**{name: value})
    if (case.width or 4) > 4:
        yield case.with_(width=4)
    if case.seed:
        yield case.with_(seed=0)


def _between(least: int, now: int) -> Iterator[int]:
    """Yield values below ``now``: the least, the middle, one less."""
    seen = []
    for value in (least, least + 1, (least + now) // 2, now - 1):
        if least <= value < now and value not in seen:
            seen.append(value)
            yield value
