"""Which groups are the same on all ranks, and when a rank's number is not its process's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from harness.groups import Groups


class Group:
    """All that is needed of a ``ProcessGroup``."""

    def __init__(self, name: str, ranks: tuple[int, ...], posted: int | None = 0) -> None:
        self.group_name, self.ranks, self.posted = name, ranks, posted

    def _get_sequence_number_for_group(self) -> int:
        if self.posted is None:
            raise RuntimeError("not counted here")
        return self.posted


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> Groups:
    monkeypatch.setattr(dist, "get_process_group_ranks", lambda group: list(group.ranks))
    return Groups(rank=0, world=3)


def name(groups: Groups, group: Any) -> str:
    known = groups.find(group)
    assert known is not None
    return known.name


def test_a_group_of_all_has_torch_s_name(groups: Groups) -> None:
    assert name(groups, Group("0", (0, 1, 2))) == "0"


def test_groups_of_other_ranks_under_one_name_are_two(groups: Groups) -> None:
    assert name(groups, Group("1", (0, 1))) != name(groups, Group("1", (0, 2)))


def test_an_initialisation_makes_every_name_new_though_no_group_was_used(groups: Groups) -> None:
    unused = Groups(rank=0, world=3)
    for each in (groups, unused):
        each.initialised()
    before = name(groups, Group("0", (0, 1, 2)))
    for each in (groups, unused):
        each.initialised()
    after = Group("0", (0, 1, 2))
    assert name(groups, after) == name(unused, after) != before


def test_a_group_that_is_made_again_under_its_name_is_another(groups: Groups) -> None:
    first, second = Group("hash", (0, 1)), Group("hash", (0, 1))
    groups.made(first, gives_up=False)
    before = name(groups, first)
    assert groups.forget(first) == [before]
    groups.made(second, gives_up=True)
    assert name(groups, second) != before
    known = groups.find(second)
    assert known is not None
    assert known.gives_up


def test_a_group_that_torch_does_not_know_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(group: Any) -> list[int]:
        raise KeyError(group)

    monkeypatch.setattr(dist, "get_process_group_ranks", unknown)
    assert Groups(rank=0, world=3).find(Group("0", ())) is None


def test_a_meeting_is_named_by_its_ranks(groups: Groups) -> None:
    known = groups.find("new_group:0,2")
    assert known is not None
    assert known.ranks == (0, 2)
    everyone = groups.find("init_process_group")
    assert everyone is not None
    assert everyone.ranks == (0, 1, 2)


@pytest.mark.parametrize(("rank", "world", "whole"), [(0, 3, True), (1, 3, False), (0, 2, False)])
def test_a_world_is_usual_when_rank_n_is_process_n(
    groups: Groups, monkeypatch: pytest.MonkeyPatch, rank: int, world: int, whole: bool
) -> None:
    monkeypatch.setattr(dist, "get_rank", lambda: rank)
    monkeypatch.setattr(dist, "get_world_size", lambda: world)
    assert (groups.unusual() is None) is whole


def test_what_torch_posts_by_itself_is_told_once(
    groups: Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    group, uncounted = Group("0", (0, 1, 2)), Group("1", (0, 1), posted=None)
    monkeypatch.setattr(c10d, "_world", SimpleNamespace(pg_map={group: None, uncounted: None}))
    groups.find(group)
    group.posted = 1
    groups.saw_one(group)
    assert groups.unseen() == []
    assert groups.anything_unseen()  # for one of them does not count
    group.posted = 3
    assert [known.name for known in groups.unseen()] == ["0"]
    assert groups.unseen() == []
