"""The process group of the simulated world: what is asked of it goes to the network."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch._C._distributed_c10d import ProcessGroup

from harness import wrappers
from harness.worlds.simulated.collectives import Collectives
from harness.worlds.simulated.data import Message
from harness.worlds.simulated.request import Request
from harness.worlds.simulated.torch_private import NAME
from harness.worlds.simulated.work import SimWork

if TYPE_CHECKING:
    from harness.worlds.simulated.simulation import Simulation

_OPTIONS: Any = None


class SimProcessGroup(Collectives):
    """A group of simulated ranks; made anew on each of its members."""

    posts_in_view = True  # the recorder need not count: nothing goes past it

    def __init__(
        self,
        simulation: Simulation,
        group_rank: int,
        members: tuple[int, ...],
        name: str,
        timeout: timedelta,
    ) -> None:
        super().__init__(group_rank, len(members))
        self.simulation = simulation
        self.members = members
        self.key = name  # the same on all members, and of no other group
        self._rank, self._size = group_rank, len(members)
        self._me = members[group_rank]
        self.timeout = timeout
        self._torchs_name = self._description = ""
        self._set_default_backend(ProcessGroup.BackendType.CUSTOM)

    # what torch asks about the group

    def size(self) -> int:
        """Return how many members there are."""
        return self._size

    def rank(self) -> int:
        """Return this rank's number in the group."""
        return self._rank

    def name(self) -> str:
        """Return the backend's name."""
        return NAME

    supports_coalescing = False  # a batch's operations each have a handle, as on gloo

    def _get_backend(self, device: torch.device) -> SimProcessGroup:
        """Return what serves a device: this group itself (torch 2.14 asks for every batch)."""
        if torch.device(device).type != "cpu":
            raise RuntimeError(f"No backend type associated with device type {device}")
        return self

    @property
    def group_name(self) -> str:
        """Torch's name of the group."""
        return self._torchs_name

    def _set_group_name(self, name: str) -> None:
        self._torchs_name = name

    @property
    def group_desc(self) -> str:
        """What the program calls the group."""
        return self._description

    def _set_group_desc(self, text: str) -> None:
        self._description = text

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu")]

    def getBackendName(self) -> str:  # noqa: N802
        """Return the backend's name; of one called gloo torch's C++ would want more."""
        return NAME

    def _get_sequence_number_for_group(self) -> int:
        return 0  # whatever is posted here is seen

    def _set_sequence_number_for_group(self) -> None:
        pass

    def set_timeout(self, timeout: timedelta) -> None:
        """Set how long a wait lasts at most."""
        self.timeout = timeout

    def abort(self) -> None:
        """Nothing to break off."""

    def shutdown(self) -> None:
        """Nothing to take down."""

    def __repr__(self) -> str:
        return f"<SimProcessGroup of ranks {', '.join(map(str, self.members))}>"

    # messages

    def send(self, tensors: Sequence[Tensor], dst: int, tag: int = 0) -> SimWork:
        """Post a send to a group rank."""
        return self._message("send", tensors, self._member(dst), tag)

    def recv(self, tensors: Sequence[Tensor], src: int, tag: int = 0) -> SimWork:
        """Post a receive from a group rank."""
        return self._message("recv", tensors, self._member(src), tag)

    def recv_anysource(self, tensors: Sequence[Tensor], tag: int = 0) -> SimWork:
        """Post a receive of whatever comes."""
        if not any(tensor.numel() for tensor in self._checked(tensors)):
            raise RuntimeError("[enforce fail at unbound_buffer.cc] offset < this->size. 0 vs 0")
        return self._message("recv", tensors, None, tag)

    def _member(self, group_rank: int) -> int:
        if not 0 <= group_rank < self._size:
            raise ValueError(f"Invalid rank: {group_rank}; the group has {self._size} ranks")
        return self.members[group_rank]

    def _message(self, kind: str, tensors: Sequence[Tensor], peer: int | None, tag: int) -> SimWork:
        (tensor,) = self._checked(tensors)
        if not tensor.is_contiguous():
            raise RuntimeError("input tensor has to be contiguous")
        if tag < 0:
            raise RuntimeError("Tag must be nonnegative")
        me = self._me
        if peer == me:
            raise RuntimeError("Pair is not connected")
        message = Message(tensor)
        flights = self.simulation.flights[me]
        if flights is not None:
            message.watch()
        request = Request(
            me, kind, self.key, self.members, peer, tag, tensor.nbytes, payload=message
        )  # fmt: skip
        work = self._post(request, [tensor])
        if flights is not None:
            flights.begin(work, message, is_send=kind == "send")
        return work

    def _checked(self, tensors: Any, count: int | None = 1) -> Sequence[Tensor]:
        if isinstance(tensors, Tensor):  # as the short forms of the methods take it
            tensors = [tensors]
        if count is not None and len(tensors) != count:
            raise RuntimeError(f"ProcessGroupSim: takes {count} tensor, got {len(tensors)}")
        for tensor in tensors:
            if tensor.layout is not torch.strided:
                raise NotImplementedError("sparse tensors are not simulated")
            if not tensor.is_cpu:
                raise RuntimeError(f"No backend type associated with device type {tensor.device}")
        checked: Sequence[Tensor] = tensors
        return checked

    def _post(self, request: Request, result: Any) -> SimWork:
        self.simulation.post(request)
        error = request.error
        failed = error is not None and not request.is_collective
        if failed and self.simulation.has_noticed(request):
            assert error is not None
            raise error
        return SimWork(request, self.simulation, result, self.timeout)


def key_of(name: str, members: tuple[int, ...], epoch: int) -> str:
    """Return a group's name that its members share, and no other group has."""
    return f"{re.sub('[^0-9A-Za-z_]', '_', name)}[{','.join(map(str, members))}]@{epoch}"


for _name, _wrap in wrappers.PROCESS_GROUP.items():
    for _owner in (SimProcessGroup, Collectives):
        if _name in vars(_owner):
            setattr(_owner, _name, _wrap(vars(_owner)[_name]))
