"""Watches every operator of a rank for tensors that are being sent or received.

Between the post of a receive and its wait the buffer may be neither read nor written, between the
post of a send and its wait not written: through no operator, view or in-place form. What goes past
torch's operators (numpy, a raw pointer) is told by a checksum.
"""

from __future__ import annotations

import sys
import weakref
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

from harness import recorder as recording

_LOOKS_ONLY = ("_like", "new_empty", "new_zeros", "new_ones", "new_full", "sym_", "is_same_size")
_CHECKED = 1 << 20  # elements of a strided view that are looked at one by one


@dataclass(slots=True, eq=False)
class Flight:
    """A tensor between the post of its operation and the wait."""

    is_send: bool
    storage: int
    first: int  # bytes of its storage
    end: int
    message: Any  # with the checksum of its bytes
    told: bool = False
    work: Any = None  # a weak reference: a dropped handle must stay one

    def tell(self, frame: FrameType | None) -> None:
        """Tell the recorder, once, of a use by the caller at ``frame``; None: unknown where."""
        recorder = recording.active()
        if not self.told and recorder is not None:
            recorder.touched(self.work(), frame)
        self.told = True


@dataclass(slots=True)
class Flights:
    """What one rank has under way, by storage."""

    by_storage: dict[int, list[Flight]] = field(default_factory=dict)
    guard: Guard | None = None  # while it watches this rank's operators

    def watch(self) -> None:
        """Watch operators from now on: every one of them costs."""
        if self.guard is None:
            self.guard = Guard(self)
            self.guard.__enter__()  # type: ignore[no-untyped-call]

    def relax(self) -> None:
        """Watch no operators while nothing is under way; on the rank's own thread.

        Within an operator, or a mode of the program's own, the next time.
        """
        if self.guard is not None and _get_current_dispatch_mode() is self.guard:
            self.guard.__exit__(None, None, None)  # type: ignore[no-untyped-call]
            self.guard = None

    def begin(self, work: Any, message: Any, *, is_send: bool) -> None:
        """Watch a message's tensor until :meth:`end`."""
        self.watch()
        tensor = message.tensor
        first = tensor.storage_offset() * tensor.element_size()
        end = first + tensor.numel() * tensor.element_size()
        flight = Flight(is_send, _storage(tensor), first, end, message)
        flight.work = weakref.ref(work)
        under_way = self.by_storage.setdefault(flight.storage, [])
        for other in under_way:
            # Two receives into one buffer may be meant: of messages that nobody looks at.
            if other.is_send != is_send and other.first < end and first < other.end:
                other.tell(sys._getframe())
        under_way.append(flight)
        work.flight = flight
        work.flights = self

    def wait(self, work: Any) -> None:
        """The operation is about to be waited for: compare the bytes, then watch no more."""
        flight = work.flight
        if not flight.told and flight.message.has_changed:
            flight.tell(None)
        self.end(work)
        if not self.by_storage:
            self.relax()

    def end(self, work: Any) -> None:
        """The operation was waited for, or its handle is gone."""
        flight = work.flight
        left = [other for other in self.by_storage.get(flight.storage, ()) if other is not flight]
        if left:
            self.by_storage[flight.storage] = left
        else:
            self.by_storage.pop(flight.storage, None)


class Guard(TorchDispatchMode):
    """Active on a rank's thread while something is under way; tells of operations' first touch."""

    def __init__(self, flights: Flights) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._flights = flights

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # torch would import its compiler, only to mark this class

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Look at the operator's tensors, then run it."""
        if self._flights.by_storage:
            self._look(func, args, kwargs or {})
        return func(*args, **(kwargs or {}))

    def _look(self, func: Any, args: Any, kwargs: Any) -> None:
        name = func._schema.name
        if func.is_view or any(part in name for part in _LOOKS_ONLY):
            return
        declared = func._schema.arguments
        given = [*zip(declared, args, strict=False)]
        given += [(a, kwargs[a.name]) for a in declared[len(args) :] if a.name in kwargs]
        for argument, value in given:
            writes = argument.alias_info is not None and argument.alias_info.is_write
            for tensor in _tensors(value):
                self._touch(tensor, writes)

    def _touch(self, tensor: Tensor, writes: bool) -> None:
        flights = self._flights.by_storage.get(_storage(tensor))
        if not flights:
            return
        for flight in flights:
            if flight.told or (flight.is_send and not writes):
                continue
            if _overlaps(tensor, flight.first, flight.end):
                flight.tell(sys._getframe())


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in _tensors(item)]
    return []


def _storage(tensor: Tensor) -> int:
    try:
        return int(tensor.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError):
        return -1  # it has none: a subclass, or a fake one


def _overlaps(tensor: Tensor, first: int, end: int) -> bool:
    """Whether a tensor has an element among these bytes of its storage."""
    size, count = tensor.element_size(), tensor.numel()
    start = tensor.storage_offset() * size
    if count == 0:
        return False
    span = sum(
        (length - 1) * step for length, step in zip(tensor.shape, tensor.stride(), strict=True)
    )
    if start >= end or start + (span + 1) * size <= first:
        return False
    if span + 1 <= count or count > _CHECKED:
        return count <= _CHECKED or span + 1 <= count
    places: Any = (
        torch.as_strided(torch.arange(span + 1), tensor.shape, tensor.stride()) * size + start
    )
    touched = torch.logical_and(places < end, places + size > first)
    return bool(touched.any())
