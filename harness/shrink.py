"""From a failing case to the smallest one that fails for the same reason.

Every try runs real ranks, so that a generic shrinker's hundreds are not affordable. A case is a
dozen small numbers with a known simplest value each: first all of them at once, then each alone,
until none can be made simpler. Deterministic; what it returns is minimal in every single value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from harness import nemesis
from harness.case import Case
from harness.targets.stages import ONE_EACH, Depth

Fails = Callable[[Case], bool]
"""Whether a case fails for the same reason; False as well when there is no time to try."""

LEFT_OUT = ("layers", "width", "workload", "optimizer", "dtype")
"""What a case of a user's own model lacks, and every smaller one as well."""


def shrink(case: Case, fails: Fails, depth: Depth = ONE_EACH) -> Case:
    """Return the smallest failing case found; ``case`` itself must fail.

    The model is cut in ``depth(world)`` slices, which need a layer each.
    """
    tried = {case}
    left_out = {name: None for name in LEFT_OUT if getattr(case, name) is None}

    def smaller(candidate: Case) -> bool:
        if candidate in tried:
            return False
        tried.add(candidate)
        return fails(candidate)

    def first(candidates: Iterator[Case]) -> Case | None:
        return next(filter(smaller, (c.with_(**left_out) for c in candidates)), None)

    case = first(_leaps(case, depth)) or case
    before = None
    while case != before:
        before = case
        ranks, sizes = partial(_ranks, depth=depth), partial(_sizes, depth=depth)
        for simpler in (_injections, ranks, _chunks, _settings, sizes):
            while (found := first(simpler(case))) is not None:  # as far as it goes
                case = found
    return case


def _leaps(case: Case, depth: Depth) -> Iterator[Case]:
    """Yield the simplest cases of all, by how many ranks and chunks they have."""
    plain = _plain(case)
    for world, chunks in ((1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 2), (3, 3)):
        if world <= case.world and chunks <= (case.chunks or 1):
            for batch in sorted({chunks, chunks + 1}):
                layers = depth(world)
                small = plain.with_(world=world, chunks=chunks, batch=batch, layers=layers)
                if batch <= (case.batch or 1) and layers <= (case.layers or layers):
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


def _ranks(case: Case, depth: Depth) -> Iterator[Case]:
    layers = case.layers or 1
    for world in range(1, case.world):
        fewer = layers - (depth(case.world) - depth(world))
        yield case.with_(world=world, layers=max(depth(world), fewer))
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


def _sizes(case: Case, depth: Depth) -> Iterator[Case]:
    batch, layers = case.batch or 1, case.layers or 1
    least_layers = depth(case.world)
    for name, now, least in (
        ("batch", batch, case.chunks or 1),
        ("layers", layers, least_layers),
    ):
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
