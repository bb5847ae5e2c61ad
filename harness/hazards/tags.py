"""Messages that meet another receive on NCCL than the one that their tag is for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from harness.hazards.replay import Replay
from harness.hazards.scripts import Script
from harness.trace import Op


@dataclass(frozen=True, slots=True)
class Mixed:
    """A send and the receive that would get its message, although their tags differ."""

    send: Op
    receive: Op
    place: int  # both are so far on in what their rank posts for the other, counted from 0

    @property
    def place_text(self) -> str:
        """``first``, ``second``, ``at place 17``."""
        words = ("first", "second", "third", "fourth")
        return words[self.place] if self.place < len(words) else f"at place {self.place + 1}"

    @property
    def differs_in(self) -> list[str]:
        """What else the two disagree in, besides the tag."""
        send, receive = self.send, self.receive
        differs = {
            "element count": send.numel != receive.numel,
            "dtype": send.dtype != receive.dtype,
            "label": _label(send) != _label(receive),
        }
        return [what for what, is_so in differs.items() if is_so]


def find_mixed(scripts: Sequence[Script]) -> list[Mixed]:
    """Return the pairs of one communicator whose tags differ, in the order of their posting."""
    replay = Replay(scripts, "nccl-eager", inf)
    found = []
    for host in replay.hosts:
        places: dict[tuple[str, int | None], int] = {}
        for request in host.posts:
            if request.kind != "recv":
                continue
            channel = (request.group, request.peer)
            place = places.get(channel, 0)
            places[channel] = place + 1
            if request.match is None or request.match.tag == request.tag:
                continue
            send, receive = request.match.payload, request.payload
            if isinstance(send, Op) and isinstance(receive, Op):
                found.append(Mixed(send, receive, place))
    return sorted(found, key=lambda pair: max(pair.send.posted_ns, pair.receive.posted_ns))


def _label(op: Op) -> str | None:
    """Return the microbatch that an action's label names; sends and receives spell the rest."""
    return None if op.action is None else op.action.rpartition("_")[2]
