"""Process groups as a rank knows them: names that all members share, and what was posted unseen.

A name of torch's alone does not tell a group: it is used again after a re-initialisation, and
different members may have different groups under one name.
"""

from __future__ import annotations

from typing import Any, NamedTuple

Ranks = tuple[int, ...]


class Known(NamedTuple):
    """A group, or a meeting of ranks that are about to make one."""

    name: str  # ours: the same on every member, and of no other group
    ranks: Ranks  # global, in group order
    gives_up: bool = False  # its waits end by themselves before long


class Groups:
    """One rank's groups."""

    def __init__(self, rank: int, world: int) -> None:
        self._rank = rank
        self._world = tuple(range(world))
        self._epoch = 0  # how often this rank has initialised
        self._made: dict[tuple[str, Ranks], int] = {}  # how often a group of that name was made
        self._known: dict[Any, Known] = {}  # by ProcessGroup, by text for meetings
        self._seen: dict[Any, int] = {}  # by ProcessGroup: operations posted in view
        self._all: Any = None  # torch's own table of groups
        self._counters: dict[Any, Any] = {}  # by ProcessGroup: how much was posted in it
        self._counted = 0  # how many groups there were then

    def is_whole(self, rank: Any, world: Any) -> bool:
        """Whether a group initialised so holds every process, each under its own number."""
        return (str(rank), str(world)) == (str(self._rank), str(len(self._world)))

    def unusual(self) -> str | None:
        """Return why nothing can be proved in this world; None where rank n is process n."""
        import torch.distributed as dist

        if self.is_whole(dist.get_rank(), dist.get_world_size()):
            return None
        return (
            f"process {self._rank} of {len(self._world)} is rank {dist.get_rank()} "
            f"of {dist.get_world_size()}"
        )

    def initialised(self) -> None:
        """Begin anew: the default group was made."""
        self._epoch += 1
        self.forget(None)

    def made(self, group: Any, *, gives_up: bool) -> None:
        """Take in a new group, made by all of its members together."""
        self._enter(group, again=True, gives_up=gives_up)

    def find(self, group: Any) -> Known | None:
        """Return what is known of a group.

        None for a group that torch's registry does not have: it is not followed. A text stands
        for the meeting of the ranks that it lists, or of all.
        """
        known = self._known.get(group)
        if known is not None:
            return known
        if isinstance(group, str):
            ranks = tuple(int(n) for n in group.partition(":")[2].split(",") if n)
            known = self._known[group] = Known(group, ranks or self._world)
            return known
        return self._enter(group, again=False, gives_up=False)

    def _enter(self, group: Any, *, again: bool, gives_up: bool) -> Known | None:
        import torch.distributed as dist

        try:
            ranks = tuple(int(rank) for rank in dist.get_process_group_ranks(group))
        except (KeyError, ValueError):
            return None
        torchs = str(group.group_name)
        made = self._made.get((torchs, ranks), 0)
        if again:
            self._made[torchs, ranks] = made = made + 1
        name = torchs if ranks == self._world else f"{torchs}[{','.join(map(str, ranks))}]"
        if self._epoch > 1:
            name += f"@{self._epoch}"
        if made > 1:
            name += f"#{made}"
        self._known[group] = known = Known(name, ranks, gives_up)
        self._seen[group] = 0
        return known

    def forget(self, group: Any) -> list[str]:
        """Take a group out that is destroyed, all for None; return our names of them."""
        self._counters.clear()
        self._counted = 0
        groups = [group] if group is not None else list(self._seen)
        names = []
        for one in groups:
            self._seen.pop(one, None)
            if (known := self._known.pop(one, None)) is not None:
                names.append(known.name)
        return names

    def saw_one(self, group: Any) -> None:
        """Note that an operation was posted in view."""
        if group in self._seen:
            self._seen[group] += 1

    def saw_all(self, group: Any) -> None:
        """Note that all that was posted up to now was in view."""
        if group in self._seen:
            self._seen[group] = _posted(group) or 0

    def _table(self) -> Any:
        if self._all is None:
            from torch.distributed import distributed_c10d as c10d

            self._all = c10d._world
        return self._all.pg_map

    def anything_unseen(self) -> bool:
        """Whether :meth:`unseen` has something to tell; cheap, for it is asked at every wait."""
        groups = self._table() if self._all is None else self._all.pg_map
        if len(groups) != self._counted:
            self._counted = len(groups)
            self._counters = {
                group: group._get_sequence_number_for_group
                for group in groups
                if not getattr(group, "posts_in_view", False)  # whatever it is given
            }
        if not self._counters:
            return False
        seen = self._seen
        try:
            for group, count in self._counters.items():
                if count() > seen.get(group, 0):
                    return True
        except RuntimeError:  # a backend that does not count
            return True
        return False

    def unseen(self) -> list[Known]:
        """Return the groups in which torch has posted more than was seen, by itself, from C++."""
        found = []
        for group in self._table():
            posted = _posted(group)
            if not posted or posted <= self._seen.get(group, 0):
                continue
            known = self.find(group)
            if known is not None:
                self._seen[group] = posted
                found.append(known)
        return found


def _posted(group: Any) -> int | None:
    """Return how many operations the backend has been given; None where it does not count."""
    try:
        return int(group._get_sequence_number_for_group())
    except RuntimeError:
        return None


def member(ranks: tuple[int, ...], index: int) -> int:
    """Return the global rank of a group rank; one out of range is left for torch to refuse."""
    return ranks[index] if 0 <= index < len(ranks) else index
