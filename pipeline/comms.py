"""Send and receive × forward and backward to a rank's neighbours, blocking and not."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextvars import Token

import torch
import torch.distributed as dist
from torch import Tensor

from pipeline.actions import CURRENT, Action, Kind, doing
from pipeline.placement import Placement


class CommsArgumentError(TypeError):
    """A call that could only end in a hang, an abort or wrong data further down."""


class Comms:
    """The eight primitives on one rank of a group, for tensors of one dtype on one device.

    Blocking calls return when the message has gone or come; those with `i` before their name
    return at once with a `Work`, which must be kept and waited for. Received tensors are plain
    leaves. No tags are used: what goes from one rank to another comes in the order it was sent.
    Gradients may have a `backward_group` of the same ranks to themselves.

    A rank that holds several stages says whose activation or gradient it is, by `stage`: the
    message goes to, or comes from, the rank that `placement` has for that stage's neighbour.
    CommsArgumentError where it is left out there, or has no neighbour on another rank.
    """

    def __init__(
        self,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        group: dist.ProcessGroup | None = None,
        backward_group: dist.ProcessGroup | None = None,
        placement: Placement | None = None,
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
        self.placement = placement or Placement.one_each(self.world_size)
        self._held = self.placement.held_by(self.rank)
        self.mirror = self.placement.mirror(self.rank)
        """The rank with copies of all stages that this one has, of two directions; else None."""
        self._calls: Counter[tuple[Kind, int | None]] = Counter()
        self._peers: dict[tuple[Kind, int | None], int] = {}

    def start_step(self) -> None:
        """Begin to count microbatches from 0 again, for the labels of calls outside a plan."""
        self._calls.clear()

    def connect(self) -> None:
        """Pass a message between each two ranks that hold adjacent stages, and one back.

        NCCL connects a pair when both first use it and blocks until then: in the middle of a
        schedule, where the two come to it in different orders, that can be for ever. Here all
        come to the pairs in one order.
        """
        message = torch.zeros(1, dtype=self.dtype, device=self.device)
        ranks, placement = self.placement.ranks, self.placement
        pairs: dict[tuple[int, int], tuple[int, int]] = {}
        for stage in range(len(ranks)):
            following = placement.neighbour(stage, +1)
            if following is not None and ranks[stage] != ranks[following]:
                pair = min(ranks[stage], ranks[following]), max(ranks[stage], ranks[following])
                pairs.setdefault(pair, (stage, following))
        for pair, (stage, following) in sorted(pairs.items()):
            if self.rank not in pair:
                continue
            if ranks[stage] == self.rank:
                self.send_forward(message, stage=stage)
                self.receive_backward(message.shape, stage=stage)
            else:
                self.receive_forward(message.shape, stage=following)
                self.send_backward(message, stage=following)

    def send_forward(self, tensor: Tensor, *, stage: int | None = None) -> None:
        """Send a stage's activation to the next one's rank."""
        with self._labelled(Kind.SEND_F, stage) as peer:
            dist.send(self._checked(tensor), peer, self.group)

    def receive_forward(self, shape: Sequence[int], *, stage: int | None = None) -> Tensor:
        """Receive a stage's input from the previous one's rank."""
        with self._labelled(Kind.RECV_F, stage) as peer:
            buffer = self._buffer(shape)
            dist.recv(buffer, peer, self.group)
            return buffer

    def send_backward(self, tensor: Tensor | None, *, stage: int | None = None) -> None:
        """Send the gradient of a stage's input to the previous one's rank."""
        with self._labelled(Kind.SEND_B, stage) as peer:
            dist.send(self._checked(tensor), peer, self.backward_group)

    def receive_backward(self, shape: Sequence[int], *, stage: int | None = None) -> Tensor:
        """Receive the gradient of a stage's activation from the next one's rank."""
        with self._labelled(Kind.RECV_B, stage) as peer:
            buffer = self._buffer(shape)
            dist.recv(buffer, peer, self.backward_group)
            return buffer

    def isend_forward(self, tensor: Tensor, *, stage: int | None = None) -> dist.Work:
        """Start to send a stage's activation."""
        with self._labelled(Kind.SEND_F, stage) as peer:
            return _work(dist.isend(self._checked(tensor), peer, self.group))

    def ireceive_forward(
        self, shape: Sequence[int], *, stage: int | None = None
    ) -> tuple[Tensor, dist.Work]:
        """Start to receive a stage's input; readable after the wait."""
        with self._labelled(Kind.RECV_F, stage) as peer:
            buffer = self._buffer(shape)
            return buffer, _work(dist.irecv(buffer, peer, self.group))

    def isend_backward(self, tensor: Tensor | None, *, stage: int | None = None) -> dist.Work:
        """Start to send the gradient of a stage's input."""
        with self._labelled(Kind.SEND_B, stage) as peer:
            return _work(dist.isend(self._checked(tensor), peer, self.backward_group))

    def ireceive_backward(
        self, shape: Sequence[int], *, stage: int | None = None
    ) -> tuple[Tensor, dist.Work]:
        """Start to receive the gradient of a stage's activation; readable after the wait."""
        with self._labelled(Kind.RECV_B, stage) as peer:
            buffer = self._buffer(shape)
            return buffer, _work(dist.irecv(buffer, peer, self.backward_group))

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
                peer = self._peer(action.kind, action.stage)
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

    def sum_with(self, other: int, tensor: Tensor) -> Tensor:
        """Exchange a tensor with another rank of the group; return both ranks' sum.

        Bitwise the same on both: one addition, whose sides may change places.
        """
        peer = other if self.group is None else dist.get_global_rank(self.group, other)
        if tensor.dtype != self.dtype or tensor.device.type != self._device_type:
            raise CommsArgumentError(
                f"the sum with rank {other} got {tensor.dtype} on {tensor.device}; both ranks "
                f"have {self.dtype} on {self.device}"
            )
        sent = tensor.detach().contiguous()
        buffer = self._buffer(sent.shape)
        operations = [
            dist.P2POp(dist.isend, sent, peer, self.group),
            dist.P2POp(dist.irecv, buffer, peer, self.group),
        ]
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        return buffer.add_(sent)

    def _labelled(self, kind: Kind, stage: int | None) -> "_Label":
        """Say which action this is, unless an executor has said so already; give the peer."""
        action = CURRENT.get()
        if action is not None:
            if stage is None and action.kind is kind:
                stage = action.stage
            return _Label(None, self._peer(kind, stage))
        peer = self._peer(kind, stage)
        count = self._calls[kind, stage]
        self._calls[kind, stage] = count + 1
        return _Label(Action(self._held[0] if stage is None else stage, kind, count), peer)

    def _peer(self, kind: Kind, stage: int | None) -> int:
        """Return the global rank at the other end of a stage's message."""
        known = self._peers.get((kind, stage))
        if known is None:
            peer = self._find_peer(kind, stage)
            known = peer if self.group is None else dist.get_global_rank(self.group, peer)
            self._peers[kind, stage] = known
        return known

    def _find_peer(self, kind: Kind, stage: int | None) -> int:
        if stage is None:
            if len(self._held) > 1:
                held = " and ".join(map(str, self._held))
                raise CommsArgumentError(
                    f"{kind.value} on rank {self.rank}, which holds stages {held}: say which one's "
                    f"it is, as in stage={self._held[0]}"
                )
            stage = self._held[0]
        elif not 0 <= stage < len(self.placement.ranks):
            count = len(self.placement.ranks)
            raise CommsArgumentError(
                f"{kind.value} on rank {self.rank}: there is no stage {stage}, of {count}"
            )
        onward = kind in (Kind.SEND_F, Kind.RECV_B)
        other = self.placement.neighbour(stage, +1 if onward else -1)
        if other is None:
            place, side = ("last", "next") if onward else ("first", "previous")
            if len(self.placement.ranks) == self.world_size:
                which = f"rank {self.rank} of {self.world_size}: the {place} rank has no {side} one"
            else:
                which = f"rank {self.rank}: stage {stage} is the {place}, and has no {side} one"
            raise CommsArgumentError(f"{kind.value} on {which}")
        peer = self.placement.ranks[other]
        if peer == self.rank:
            raise CommsArgumentError(
                f"{kind.value} on rank {self.rank}: stages {stage} and {other} are both here, and "
                "need no message: hand the tensor over, detached"
            )
        return peer

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
    """Makes an action the current one, None leaves it as it is; the block is given the peer."""

    __slots__ = ("_action", "_peer", "_token")
    _token: Token[Action | None]

    def __init__(self, action: Action | None, peer: int) -> None:
        self._action = action
        self._peer = peer

    def __enter__(self) -> int:
        if self._action is not None:
            self._token = CURRENT.set(self._action)
        return self._peer

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
