"""Send and receive × forward and backward to a rank's neighbours, blocking and not."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextvars import Token

import torch
import torch.distributed as dist
from torch import Tensor

from pipeline.actions import CURRENT, Action, Kind, doing


class CommsArgumentError(TypeError):
    """A call that could only end in a hang, an abort or wrong data further down."""


class Comms:
    """The eight primitives on one rank of a group, for tensors of one dtype on one device.

    Blocking calls return when the message has gone or come; those with `i` before their name
    return at once with a `Work`, which must be kept and waited for. Received tensors are plain
    leaves. No tags are used: what goes from one rank to another comes in the order it was sent.
    Gradients may have a `backward_group` of the same ranks to themselves.
    """

    def __init__(
        self,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        group: dist.ProcessGroup | None = None,
        backward_group: dist.ProcessGroup | None = None,
    ) -> None:
        self.dtype = dtype
        self.device = torch.device(device)
        self._device_type = self.device.type
        self.group = group
        self.backward_group = backward_group or group
        self.rank = dist.get_rank(group)
        self.world_size = dist.get_world_size(group)
        self.previous_rank = self.rank - 1 if self.rank > 0 else None
        self.next_rank = self.rank + 1 if self.rank < self.world_size - 1 else None
        self._calls: Counter[Kind] = Counter()

    def start_step(self) -> None:
        """Begin to count microbatches from 0 again, for the labels of calls outside a plan."""
        self._calls.clear()

    def connect(self) -> None:
        """Pass one message along the ranks and one back, so that every pair is connected.

        NCCL connects a pair when both first use it and blocks until then: in the middle of a
        schedule, where the two come to it in different orders, that can be for ever.
        """
        message = torch.zeros(1, dtype=self.dtype, device=self.device)
        if self.previous_rank is not None:
            self.receive_forward(message.shape)
        if self.next_rank is not None:
            self.send_forward(message)
            self.receive_backward(message.shape)
        if self.previous_rank is not None:
            self.send_backward(message)

    def send_forward(self, tensor: Tensor) -> None:
        """Send an activation to the next rank."""
        with self._labelled(Kind.SEND_F):
            dist.send(self._checked(tensor), self._peer(Kind.SEND_F), self.group)

    def receive_forward(self, shape: Sequence[int]) -> Tensor:
        """Receive an activation from the previous rank."""
        with self._labelled(Kind.RECV_F):
            buffer = self._buffer(shape)
            dist.recv(buffer, self._peer(Kind.RECV_F), self.group)
            return buffer

    def send_backward(self, tensor: Tensor | None) -> None:
        """Send a gradient to the previous rank."""
        with self._labelled(Kind.SEND_B):
            dist.send(self._checked(tensor), self._peer(Kind.SEND_B), self.backward_group)

    def receive_backward(self, shape: Sequence[int]) -> Tensor:
        """Receive a gradient from the next rank."""
        with self._labelled(Kind.RECV_B):
            buffer = self._buffer(shape)
            dist.recv(buffer, self._peer(Kind.RECV_B), self.backward_group)
            return buffer

    def isend_forward(self, tensor: Tensor) -> dist.Work:
        """Start to send an activation to the next rank."""
        with self._labelled(Kind.SEND_F):
            return _work(dist.isend(self._checked(tensor), self._peer(Kind.SEND_F), self.group))

    def ireceive_forward(self, shape: Sequence[int]) -> tuple[Tensor, dist.Work]:
        """Start to receive an activation from the previous rank; readable after the wait."""
        with self._labelled(Kind.RECV_F):
            buffer = self._buffer(shape)
            return buffer, _work(dist.irecv(buffer, self._peer(Kind.RECV_F), self.group))

    def isend_backward(self, tensor: Tensor | None) -> dist.Work:
        """Start to send a gradient to the previous rank."""
        with self._labelled(Kind.SEND_B):
            return _work(
                dist.isend(self._checked(tensor), self._peer(Kind.SEND_B), self.backward_group)
            )

    def ireceive_backward(self, shape: Sequence[int]) -> tuple[Tensor, dist.Work]:
        """Start to receive a gradient from the next rank; readable after the wait."""
        with self._labelled(Kind.RECV_B):
            buffer = self._buffer(shape)
            return buffer, _work(dist.irecv(buffer, self._peer(Kind.RECV_B), self.backward_group))

    def exchange(
        self, messages: Sequence[tuple[Action, Tensor | Sequence[int] | None]]
    ) -> dict[Action, Tensor]:
        """Post all of these together, as one batch, and wait for them.

        With each action goes the tensor that it sends, or the shape that it receives. Returns what
        the receives brought. Gradients go over `group` as well: a batch is of one group.
        """
        posting = _Labelled()
        received: dict[Action, Tensor] = {}
        with doing(messages[0][0]):  # and each in turn
            for action, what in messages:
                CURRENT.set(action)
                peer = self._peer(action.kind)
                if action.kind.is_send:
                    assert what is None or isinstance(what, Tensor)
                    sent = self._checked(what)
                    posting.add(action, dist.P2POp(dist.isend, sent, peer, self.group))
                else:
                    assert what is not None
                    assert not isinstance(what, Tensor)
                    buffer = received[action] = self._buffer(what)
                    posting.add(action, dist.P2POp(dist.irecv, buffer, peer, self.group))
            CURRENT.set(posting.actions[0])
            works = dist.batch_isend_irecv(posting)
            # gloo gives one for each, NCCL one for all of them
            for action, work in zip(posting.actions, works, strict=False):
                CURRENT.set(action)
                work.wait()
        return received

    def _labelled(self, kind: Kind) -> "_Label":
        """Say which action this is, unless an executor has said so already."""
        microbatch = self._calls[kind]
        self._calls[kind] = microbatch + 1
        return _Label(None if CURRENT.get() is not None else Action(self.rank, kind, microbatch))

    def _peer(self, kind: Kind) -> int:
        """Return the global rank at the other end."""
        onward = kind in (Kind.SEND_F, Kind.RECV_B)
        peer = self.next_rank if onward else self.previous_rank
        if peer is None:
            place, side = ("last", "next") if onward else ("first", "previous")
            raise CommsArgumentError(
                f"{kind.value} on rank {self.rank} of {self.world_size}: the {place} rank has no "
                f"{side} one"
            )
        return peer if self.group is None else dist.get_global_rank(self.group, peer)

    def _checked(self, tensor: Tensor | None) -> Tensor:
        """Return what to send: cut from the graph, which exists on this rank only."""
        if not isinstance(tensor, Tensor):
            raise self._not_a_tensor(tensor)
        if tensor.dtype != self.dtype or tensor.device.type != self._device_type:
            raise CommsArgumentError(
                f"{CURRENT.get()} got {tensor.dtype} on {tensor.device}; the receiver expects "
                f"{self.dtype} on {self.device}"
            )
        return tensor.detach().contiguous()

    def _not_a_tensor(self, given: object) -> CommsArgumentError:
        action = CURRENT.get()
        if given is None:
            hint = ""
            if action is not None and action.kind is Kind.SEND_B:
                hint = (
                    ": the received activation has no gradient; call requires_grad_() on it "
                    "before stage(x)"
                )
            return CommsArgumentError(f"{action} got None{hint}")
        return CommsArgumentError(f"{action} got a {type(given).__name__}; expected a tensor")

    def _buffer(self, shape: Sequence[int]) -> Tensor:
        for size in shape:
            if isinstance(size, float):
                raise CommsArgumentError(
                    f"{CURRENT.get()} got the shape {tuple(shape)}: {size} is a float; sizes are "
                    "integers, so divide with // and not /"
                )
            if size < 0:
                given = tuple(shape)
                raise CommsArgumentError(f"{CURRENT.get()} got the shape {given}: {size} < 0")
        # Zeros, so that whatever a short message leaves unfilled is at least the same every run.
        return torch.zeros(*shape, dtype=self.dtype, device=self.device)


class _Label:
    """Makes an action the current one; None leaves it as it is."""

    __slots__ = ("_action", "_token")
    _token: Token[Action | None]

    def __init__(self, action: Action | None) -> None:
        self._action = action

    def __enter__(self) -> None:
        if self._action is not None:
            self._token = CURRENT.set(self._action)

    def __exit__(self, *_: object) -> None:
        if self._action is not None:
            CURRENT.reset(self._token)


class _Labelled(list[dist.P2POp]):
    """A batch's operations; going through them makes the action of each the current one.

    `batch_isend_irecv` posts them one after the other, and has no other place for a label.
    """

    def __init__(self) -> None:
        super().__init__()
        self.actions: list[Action] = []

    def add(self, action: Action, operation: dist.P2POp) -> None:
        self.actions.append(action)
        self.append(operation)

    def __iter__(self) -> Iterator[dist.P2POp]:
        for action, operation in zip(self.actions, super().__iter__(), strict=True):
            CURRENT.set(action)
            yield operation


def _work(work: dist.Work | None) -> dist.Work:
    assert work is not None, "only a rank outside the group gets no work"
    return work
