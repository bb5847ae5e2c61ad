"""Hypothesis strategies for cases: small first, uneven ones among them, corners before all.

>>> from hypothesis import given
>>> @given(cases("1f1b", worlds=(2, 4), chunks=(1, 2, 8)))
... def test_every_case_can_be_cut(case):
...     assert case.batch >= case.chunks and case.layers >= case.world
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from hypothesis import strategies as st

from harness.case import Case
from harness.options import DEFAULT_CHUNKS, DEFAULT_WORLDS
from harness.targets.stages import ONE_EACH, Depth

WIDTHS = (4, 8, 3, 16, 5, 32)
DTYPES = ("float64", "float64", "float64", "float32", "bfloat16")
DELAYS = (0, 0, 0, 0, 2, 5)
SEEDS = st.integers(0, 999)

# (world, chunks, samples more than chunks, layers more than ranks): what usual faults need.
CORNERS = (
    (2, 2, 0, 0),  # the smallest pipeline
    (4, 8, 8, 4),  # even in every way, a real steady state
    (3, 4, 3, 2),  # batch and layers uneven
    (5, 2, 0, 1),  # fewer chunks than the warmup of the first rank
    (1, 1, 1, 1),  # no neighbour at all
    (2, 5, 2, 1),  # more chunks than ranks, an odd number, uneven
    (4, 1, 2, 3),  # one microbatch
    (1, 3, 1, 1),  # accumulation without communication
    (6, 12, 6, 5),
    (3, 2, 17, 2),  # microbatches of more samples than drawn ones have
)


Refuses = Callable[[int, int], str]
"""(world, chunks) → why a target refuses that shape, empty where it does not."""


@st.composite
def cases(
    draw: st.DrawFn,
    target: str,
    worlds: Sequence[int] = DEFAULT_WORLDS,
    chunks: Sequence[int] = DEFAULT_CHUNKS,
    policies: Sequence[str | None] = (None,),
    backend: str = "sim",
    delays: Sequence[int] = DELAYS,
    depth: Depth = ONE_EACH,
    refuses: Refuses | None = None,
    even_batches: bool = False,
) -> Case:
    """Draw a case of ``target``: batch ≥ chunks, layers ≥ depth(world), divisible or not.

    ``even_batches``: chunks divide the batch, for targets that only take such.

    ``policies`` are comm policies for targets that have one, ``(None,)`` for the others. Shapes
    that the target is known to refuse are not drawn, unless there are no others.
    """
    accepted = _accepted(worlds, chunks, refuses)
    if len(accepted) < len(worlds) * len(chunks):
        world, count = draw(st.sampled_from(accepted))
    else:
        world = draw(st.sampled_from(sorted(worlds)))
        count = draw(st.sampled_from(sorted(chunks)))
    even = even_batches or draw(st.booleans())
    batch = count * draw(st.integers(1, 4)) if even else count + draw(st.integers(0, 3 * count))
    return Case(
        target,
        world,
        chunks=count,
        batch=batch,
        layers=depth(world) + draw(st.integers(0, 2 * world)),
        width=draw(st.sampled_from(WIDTHS)),
        dtype=draw(st.sampled_from(DTYPES)),
        steps=draw(st.integers(1, 3)),
        optimizer=draw(st.sampled_from(("sgd", "adam"))),
        workload=draw(st.sampled_from(("conditioned", "conditioned", "seed"))),
        policy=draw(st.sampled_from(policies)),
        backend=backend,
        delay=draw(st.sampled_from(delays)),
        seed=draw(SEEDS),
    )


def corners(
    target: str,
    worlds: Sequence[int] = DEFAULT_WORLDS,
    chunks: Sequence[int] = DEFAULT_CHUNKS,
    policies: Sequence[str | None] = (None,),
    backend: str = "sim",
    seed: int = 0,
    depth: Depth = ONE_EACH,
    refuses: Refuses | None = None,
    even_batches: bool = False,
) -> Iterator[Case]:
    """Yield the cases that come before drawn ones, each as near as the restrictions allow.

    Their other values alternate, so that the first few have both optimizers, several steps and
    both workloads.
    """
    seen: set[tuple[int, int, int, int]] = set()
    accepted = _accepted(worlds, chunks, refuses)
    for place, (near, count, samples, layers) in enumerate(CORNERS):
        at = _nearest(accepted, near, count)
        shape = (*at, samples - even_batches * (samples % at[1]), layers)
        if shape in seen:
            continue
        seen.add(shape)
        yield Case(
            target,
            shape[0],
            chunks=shape[1],
            batch=shape[1] + shape[2],
            layers=depth(shape[0]) + shape[3],
            width=(8, 16)[place % 2],
            dtype=("float64", "float64", "float64", "float32")[place % 4],
            steps=2,
            optimizer=("sgd", "adam")[place % 2],
            workload=("conditioned", "conditioned", "seed")[place % 3],
            policy=policies[place % len(policies)],
            backend=backend,
            delay=(0, 0, 2)[place % 3],
            seed=seed + place,
        )


def _accepted(
    worlds: Sequence[int], chunks: Sequence[int], refuses: Refuses | None
) -> list[tuple[int, int]]:
    """List the shapes that are not refused; all of them where every one is."""
    shapes = [(world, count) for world in sorted(worlds) for count in sorted(chunks)]
    if refuses is None:
        return shapes
    return [shape for shape in shapes if not refuses(*shape)] or shapes


def _nearest(shapes: Sequence[tuple[int, int]], world: int, chunks: int) -> tuple[int, int]:
    """Return the shape that is nearest in its world, and of those in its chunks."""
    return min(shapes, key=lambda shape: (abs(shape[0] - world), abs(shape[1] - chunks)))
