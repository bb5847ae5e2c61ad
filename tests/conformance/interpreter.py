"""Small communication programs as data, and what executes one on a rank.

Ranks import this, so it imports little. Every kind of action has its own line, which findings name.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist

_SHOWN = ("name", "peer", "tag", "group", "count", "dtype", "op", "waits", "parts")


@dataclass(frozen=True)
class Action:
    """One thing that a rank does; ``name`` ties it to its event, and a wait to its request.

    ``peer`` is the other rank or the root, a global rank; ``group`` the place in the program's
    list of groups; None is the default group.
    """

    do: str
    name: int = 0
    peer: int | None = None
    tag: int = 0
    group: int | None = None
    count: int = 2
    dtype: str = "float32"
    op: str = "SUM"
    waits: bool = True  # False: the request is kept under its name
    parts: tuple[Action, ...] = ()

    def __repr__(self) -> str:
        usual = Action(self.do)
        shown = {
            key: getattr(self, key) for key in _SHOWN if getattr(self, key) != getattr(usual, key)
        }
        words = [repr(self.do), *(f"{key}={value!r}" for key, value in shown.items())]
        return f"Action({', '.join(words)})"


@dataclass(frozen=True)
class Script:
    """A program: what each rank does, and the members of each subgroup.

    ``right``: it is correct by construction.
    """

    ranks: tuple[tuple[Action, ...], ...]
    groups: tuple[tuple[int, ...], ...] = ()
    right: bool = False

    def __call__(self, rank: int, world_size: int) -> Any:
        """Run it, as ``function(rank, world_size)``; returns every value that the rank came to."""
        groups = [dist.new_group(list(members)) for members in self.groups]
        state = _Rank(rank, world_size, groups)
        for action in self.ranks[rank]:
            state.run(action)
        return state.values()


@dataclass
class _Rank:
    rank: int
    world_size: int
    groups: list[Any]
    works: dict[int, Any] = field(default_factory=dict)
    tensors: dict[int, Any] = field(default_factory=dict)  # of pending requests
    ended: list[tuple[int, Any]] = field(default_factory=list)
    free: list[Any] = field(default_factory=list)  # received from any source: in no order

    def values(self) -> Any:
        return self.ended, sorted(self.free)

    def run(self, action: Action) -> None:
        """Do one thing."""
        group = None if action.group is None else self.groups[action.group]
        if action.do in ("wait", "drop", "change", "raise"):
            self._handle(action)
        elif action.do == "batch":
            self._batch(action)
        elif action.do.endswith(("send", "recv", "from_any", "objects")):
            self._message(action, group)
        else:
            self._collective(action, group)

    def _handle(self, action: Action) -> None:
        name = action.name
        match action.do:
            case "wait":
                if name in self.works:
                    self.works.pop(name).wait()
                    self._end(name)
            case "drop":
                self.tensors.pop(name, None)
                self.works.pop(name, None)
            case "change":
                if name in self.tensors:
                    self.tensors[name].fill_(1)
            case "raise":
                raise RuntimeError("as planned")

    def _end(self, name: int) -> None:
        if name in self.tensors:
            self.ended.append((name, self.tensors.pop(name)))

    def _message(self, action: Action, group: Any) -> None:
        tensor, peer, tag = self._tensor(action), action.peer, action.tag
        match action.do:
            case "send":
                dist.send(tensor, peer, group=group, tag=tag)
            case "recv":
                dist.recv(tensor, peer, group=group, tag=tag)
                self.ended.append((action.name, tensor))
            case "isend":
                self._keep(action, tensor, dist.isend(tensor, peer, group=group, tag=tag))
            case "irecv":
                self._keep(action, tensor, dist.irecv(tensor, peer, group=group, tag=tag))
            case "from_any":
                source = dist.recv(tensor, group=group, tag=tag)
                self.free.append((action.name, source, tensor.tolist()))
            case "send_objects":
                dist.send_object_list([action.name, "x" * action.count], peer, group=group)
            case "recv_objects":
                found: list[Any] = [None, None]
                dist.recv_object_list(found, peer, group=group)
                self.ended.append((action.name, found))

    def _keep(self, action: Action, tensor: Any, work: Any) -> None:
        self.works[action.name] = work
        self.tensors[action.name] = tensor

    def _batch(self, action: Action) -> None:
        tensors = [self._tensor(part) for part in action.parts]
        ops = [
            dist.P2POp(dist.isend if part.do == "isend" else dist.irecv, t, part.peer, tag=part.tag)
            for part, t in zip(action.parts, tensors, strict=True)
        ]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        self.ended += [(part.name, t) for part, t in zip(action.parts, tensors, strict=True)]

    def _tensor(self, action: Action, salt: int = 0) -> Any:
        """Values that tell who made them, for which event, at which place."""
        first = 1 + (action.name * 7 + self.rank * 3 + salt) % 50
        return torch.arange(first, first + action.count).to(getattr(torch, action.dtype))

    def _collective(self, action: Action, group: Any) -> None:
        tensor, root = self._tensor(action), action.peer
        size = dist.get_world_size(group)
        many = [self._tensor(action, salt) for salt in range(size)]
        at_root = many if root == self.rank else None
        op: Any = getattr(dist.ReduceOp, action.op)
        wait, work = action.waits, None
        result: Any = tensor
        match action.do:
            case "barrier":
                work = dist.barrier(group=group, async_op=not wait)
            case "monitored_barrier":
                dist.monitored_barrier(group=group)
            case "all_reduce":
                work = dist.all_reduce(tensor, op, group=group, async_op=not wait)
            case "broadcast":
                work = dist.broadcast(tensor, root, group=group, async_op=not wait)
            case "reduce":
                work = dist.reduce(tensor, root, op, group=group, async_op=not wait)
            case "gather":
                result = many
                work = dist.gather(tensor, at_root, root, group=group, async_op=not wait)
            case "scatter":
                work = dist.scatter(tensor, at_root, root, group=group, async_op=not wait)
            case "all_gather":
                result = many
                work = dist.all_gather(many, tensor, group=group, async_op=not wait)
            case "reduce_scatter":
                work = dist.reduce_scatter(tensor, many, op, group=group, async_op=not wait)
            case "all_to_all":
                result = [torch.zeros_like(one) for one in many]
                work = dist.all_to_all(result, many, group=group, async_op=not wait)
            case "all_gather_object":
                result = [None] * size
                dist.all_gather_object(result, (action.name, self.rank), group=group)
        if work is not None and not wait:
            self._keep(action, result, work)
        else:
            self.ended.append((action.name, result))
