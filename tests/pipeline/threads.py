"""Ranks as threads over an in-memory transport with the calls of `torch.distributed`.

Sends are buffered and matched in order per (source, destination), whatever order is waited in.
"""

import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar
from unittest.mock import patch

from torch import Tensor

from pipeline.actions import CURRENT, Action

T = TypeVar("T")
TIMEOUT = 30.0


@dataclass
class Call:
    """What a transport saw: the operation, whose, and the action it was labelled with."""

    operation: str
    rank: int
    peer: int
    action: Action | None
    waited: bool = False
    batched: bool = False


@dataclass
class Operation:
    """Stands in for a `P2POp`."""

    op: Callable[[Tensor, int], "Request"]
    tensor: Tensor
    peer: int


@dataclass
class Request:
    """Stands in for a `Work`."""

    call: Call
    complete: Callable[[], None] = lambda: None

    def wait(self) -> None:
        self.call.waited = True
        self.complete()


@dataclass
class Transport:
    """The part of `torch.distributed` that `Comms` uses."""

    world: int
    calls: list[Call] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._local = threading.local()
        self._changed = threading.Condition()
        self._sent: defaultdict[tuple[int, int], list[Tensor]] = defaultdict(list)
        self._posted: defaultdict[tuple[int, int], int] = defaultdict(int)

    def become(self, rank: int) -> None:
        self._local.rank = rank

    def get_rank(self, group: object = None) -> int:
        return int(self._local.rank)

    def get_world_size(self, group: object = None) -> int:
        return self.world

    def _called(self, operation: str, peer: int, waited: bool) -> Call:
        call = Call(operation, self.get_rank(), peer, CURRENT.get(), waited)
        self.calls.append(call)
        return call

    def send(self, tensor: Tensor, dst: int, group: object = None) -> None:
        self._called("send", dst, waited=True)
        self._put(tensor, dst)

    def isend(self, tensor: Tensor, dst: int, group: object = None) -> Request:
        call = self._called("isend", dst, waited=False)
        self._put(tensor, dst)
        return Request(call)

    def recv(self, tensor: Tensor, src: int, group: object = None) -> None:
        self._called("recv", src, waited=True)
        self._post(tensor, src)()

    def irecv(self, tensor: Tensor, src: int, group: object = None) -> Request:
        return Request(self._called("irecv", src, waited=False), self._post(tensor, src))

    @staticmethod
    def P2POp(op: Any, tensor: Tensor, peer: int, group: object = None) -> "Operation":  # noqa: N802
        return Operation(op, tensor, peer)

    def batch_isend_irecv(self, operations: "list[Operation]") -> list[Request]:
        works = []
        for operation in operations:
            work = operation.op(operation.tensor, operation.peer)
            work.call.batched = True
            works.append(work)
        return works

    def _put(self, tensor: Tensor, dst: int) -> None:
        assert not tensor.requires_grad
        assert tensor.is_contiguous()
        with self._changed:
            self._sent[self.get_rank(), dst].append(tensor.clone())
            self._changed.notify_all()

    def _post(self, tensor: Tensor, src: int) -> Callable[[], None]:
        channel = src, self.get_rank()
        place = self._posted[channel]
        self._posted[channel] += 1

        def complete() -> None:
            with self._changed:
                arrived = self._changed.wait_for(
                    lambda: len(self._sent[channel]) > place, timeout=TIMEOUT
                )
                assert arrived, f"no message {place} from {channel[0]} to {channel[1]}"
                assert self._sent[channel][place].shape == tensor.shape
                tensor.copy_(self._sent[channel][place])

        return complete


def run_ranks(world: int, body: Callable[[int], T]) -> tuple[list[T], Transport]:
    """Run `body(rank)` on a thread per rank; return the results and the transport's calls."""
    transport = Transport(world)
    results: dict[int, Any] = {}
    errors: list[BaseException] = []

    def run(rank: int) -> None:
        transport.become(rank)
        try:
            results[rank] = body(rank)
        except BaseException as error:
            errors.append(error)

    with patch("pipeline.comms.dist", transport):
        threads = [threading.Thread(target=run, args=(rank,)) for rank in range(world)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
    return [results[rank] for rank in range(world)], transport
