"""Which ranks a collective needs, and so which waits for it can be proved hopeless."""

from __future__ import annotations

import pytest

from tests.checkers.builder import Story, stuck


def missing(kind: str, absent: int, *, root: int = 0, world: int = 4) -> list[int]:
    """The ranks that are stuck in a collective when one has finished without coming."""
    story = Story(world)
    for rank in range(world):
        if rank != absent:
            story[rank].collective(kind, root=root)
    story[absent].finishes()
    return stuck(story)


@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "barrier", "all_to_all_single"])
def test_nobody_leaves_a_collective_of_all_before_everyone_has_come(kind: str) -> None:
    assert missing(kind, 3) == [0, 1, 2]


def test_a_broadcast_goes_down_a_binomial_tree_on_gloo() -> None:
    assert missing("broadcast", absent=0) == [1, 2, 3]  # the root: nobody gets it
    assert missing("broadcast", absent=1) == [0, 3]  # 0 gives to 1 and 2, 1 gives to 3
    assert missing("broadcast", absent=2) == [0]
    assert missing("broadcast", absent=3) == [1]
    assert missing("broadcast", absent=2, root=2) == [0, 1, 3]
    assert missing("broadcast", absent=1, root=2) == [3]


def test_a_gather_needs_its_root_and_the_root_needs_all() -> None:
    assert missing("gather", absent=0) == [1, 2, 3]
    assert missing("gather", absent=2) == [0]


def test_a_scatter_needs_its_root_and_the_root_needs_all() -> None:
    assert missing("scatter", absent=0) == [1, 2, 3]
    assert missing("scatter", absent=2) == [0]


def test_a_reduce_passes_along_the_ranks_on_gloo() -> None:
    assert 0 in missing("reduce", absent=3)
    assert set(missing("reduce", absent=0)) >= {1}


def test_elsewhere_only_what_is_sure_of_a_rooted_collective_is_concluded() -> None:
    story = Story(2)
    story[0].collective("broadcast", root=0)
    story[1].finishes()
    assert stuck(story, "gloo") == [0]
    assert stuck(story, "nccl") == []
