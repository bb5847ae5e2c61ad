"""What a rank asks of the simulated network, and the network that answers.

A network knows nothing of threads, tensors or torch: it is told what is posted, in some order, and
says what has become of it. The simulated world drives one with live ranks, the analysis of a trace
with recorded ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(slots=True, eq=False)
class Request:
    """One send, receive or collective, as posted by one rank.

    ``kind`` is ``send``, ``recv`` or the collective's name; ``peer`` and ``root`` are global ranks
    (``peer`` None: a receive from any source); ``size`` is in bytes. Operations that a rank posted
    as one batch have the same ``batch``. ``payload`` is the world's own.
    """

    rank: int
    kind: str
    group: str
    members: tuple[int, ...]
    peer: int | None = None
    tag: int = 0
    size: int = 0
    root: int | None = None
    batch: int | None = None
    payload: Any = None
    # what the network has made of it
    admitted: bool = True  # False: its rank is held inside the call that posts it
    done: bool = False
    error: BaseException | None = None
    match: Request | None = None
    index: int = 0  # of a collective: how many of its group this rank had posted before
    withdrawn: bool = False
    started: bool = False  # of a collective: it is being carried out

    @property
    def is_collective(self) -> bool:
        """Whether all ranks of the group take part."""
        return self.kind not in ("send", "recv")

    @property
    def ended(self) -> bool:
        """Whether a wait for it returns or raises."""
        return self.done or self.error is not None


Deliver = Callable[[Request, Request], None]  # a send and its receive: move the data
Meet = Callable[[Request, Sequence[Request]], None]  # one rank's part, with all parts so far


class Network(Protocol):
    """Send semantics: when a request is done, given everything that was posted."""

    def post(self, request: Request) -> None:
        """Take a request in; it, and others, may be done by that."""

    def close_batch(self, rank: int) -> None:
        """The batch that this rank has been posting is complete."""

    def withdraw(self, request: Request) -> None:
        """The handle of a request was dropped."""
