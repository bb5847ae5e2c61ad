"""What ``harness.semantics`` says of gloo, held against gloo itself."""

from __future__ import annotations

import pytest

from harness.semantics import needed_ranks
from harness.trace import UNKNOWN_SITE, Op
from harness.worlds import World
from tests.programs import missing
from tests.torch_versions import since
from tests.worlds.running import run

ALL_CALLS = since("2.9", "has a gloo without all_to_all")

pytestmark = pytest.mark.gloo


def needed(kind: str, rank: int, root: int, size: int) -> set[int]:
    return needed_ranks(
        Op(
            rank=rank,
            id=0,
            kind=kind,
            api=kind,
            group="0",
            site=UNKNOWN_SITE,
            posted_ns=0,
            root=root if kind in missing.ROOTED else None,
        ),
        tuple(range(size)),
        "gloo",
    )


@ALL_CALLS
@pytest.mark.parametrize("size", [3, 4])
def test_no_rank_leaves_a_collective_without_those_that_it_is_said_to_need(
    gloo: World, size: int
) -> None:
    outcome = run(gloo, missing.measure, size, fresh=True)
    assert outcome.ending == "finished"
    wrong = []
    for rank in outcome.ranks:
        for kind, root, absent, numel in rank.result:
            if absent in needed(kind, rank.rank, root, size):
                wrong.append((kind, root, f"without {absent}", numel, f"rank {rank.rank} left"))
        whole = {s for s in missing.scenarios(size) if s[2] == size}
        assert whole <= rank.result, "a collective that all came to must end"
    assert wrong == []


@pytest.mark.parametrize("size", [3, 4])
def test_a_rank_never_needs_itself_nor_one_outside_the_group(size: int) -> None:
    for kind in (*missing.ROOTED, *missing.OF_ALL):
        for root in range(size):
            for rank in range(size):
                assert needed(kind, rank, root, size) <= set(range(size)) - {rank}


def test_a_collective_of_an_unknown_kind_is_said_to_need_nobody() -> None:
    assert needed("made_up", 0, 0, 4) == set()
