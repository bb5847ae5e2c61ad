"""The handles (``Work`` objects) that a program holds, and their ends."""

from __future__ import annotations

import time
import weakref
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any


class Handle(weakref.ref[Any]):  # one object instead of a reference, a closure and a record
    """A posted operation, or a batch of them, whose ``Work`` the program still holds."""

    __slots__ = (
        "any_source", "checksum", "escaped", "gives_up", "key", "more", "ops", "tensor", "version"
    )  # fmt: skip
    ops: tuple[int, ...]
    key: int
    tensor: Any
    version: int | None
    more: tuple[tuple[Any, int], ...]  # a collective's tensors, with their counters
    checksum: int | None  # of a part of a storage, whose counter others move too
    any_source: bool
    gives_up: bool  # a wait for it ends by itself before long
    escaped: bool  # its future was taken: completion is the program's business

    @property
    def changed(self) -> bool:
        """Whether a tensor was modified since the operation was posted."""
        if self.more:
            return any(tensor._version != version for tensor, version in self.more)
        if self.version is None or self.tensor._version == self.version:
            return False
        return self.checksum is None or _checksum(self.tensor) != self.checksum


class Handles:
    """Follows handles until they are waited for or garbage-collected."""

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock = clock
        self.dropped: deque[tuple[int, tuple[int, ...]]] = deque()  # when, which operations
        self.escaped = 0  # how many may go on in a callback, on a thread of the backend's
        self._held: dict[int, Handle] = {}

    def follow(
        self,
        ops: tuple[int, ...],
        work: Any,
        tensor: Any = None,
        *,
        any_source: bool = False,
        is_send: bool = False,
        gives_up: bool = False,
        more: tuple[Any, ...] = (),
    ) -> None:
        """Follow ``work``, the handle of ``ops``; ``tensor`` is watched for modifications.

        So are ``more``, a collective's tensors, as far as they are whole storages.
        """
        handle = Handle(work, self._on_drop)
        handle.ops, handle.key, handle.tensor = ops, id(work), tensor
        handle.any_source, handle.gives_up, handle.escaped = any_source, gives_up, False
        handle.version, handle.checksum = _watch(tensor, is_send)
        handle.more = tuple(_counted(more)) if more else ()
        self._held[handle.key] = handle

    def _on_drop(self, handle: Any) -> None:
        """Queue a drop: this may run at any time, even while an event is being written."""
        known = self._held.get(handle.key)
        if known is not None and known is handle:
            del self._held[known.key]
            if not known.escaped:
                self.dropped.append((self._clock(), known.ops))

    def of(self, work: Any) -> Handle | None:
        """Return the handle of ``work`` if it is followed."""
        return self._held.get(id(work))

    def escape(self, work: Any) -> None:
        """Note that the future of ``work`` was taken."""
        handle = self._held.get(id(work))
        if handle is not None and not handle.escaped:
            handle.escaped = True
            self.escaped += 1

    def end(self, work: Any) -> Handle | None:
        """Follow ``work`` no longer: it has ended."""
        return self._held.pop(id(work), None)


def _counted(tensors: tuple[Any, ...]) -> Iterator[tuple[Any, int]]:
    for tensor in tensors:
        if tensor.device.type != "cpu":
            continue  # of a GPU's tensor gloo works on a copy, and copies it back by an operator
        version, _ = _watch(tensor, False)
        if version is not None:
            yield tensor, version


_CHECKED_BYTES = 1 << 20  # a larger part of a storage is not watched


def _watch(tensor: Any, is_send: bool) -> tuple[int | None, int | None]:
    """Return the tensor's modification counter, and a checksum where that is shared.

    None where it cannot be told: an inference tensor keeps no counter, and a part of a larger
    storage shares it with the rest, into which another receive may be on its way.
    """
    if tensor is None:
        return None, None
    try:
        version, size = int(tensor._version), tensor.nbytes
        whole = tensor.untyped_storage().nbytes() == size
    except (RuntimeError, NotImplementedError):
        return None, None  # an inference tensor, a sparse one, or one without storage
    if whole:
        return version, None
    if not is_send or size > _CHECKED_BYTES or tensor.device.type != "cpu":
        return None, None
    return version, _checksum(tensor)


def _checksum(tensor: Any) -> int:
    """Return a checksum of the tensor's own bytes."""
    import torch

    flat = tensor.detach().contiguous().view(-1).view(torch.uint8)
    return zlib.crc32(flat.numpy())
