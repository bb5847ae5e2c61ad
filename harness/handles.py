"""The handles (``Work`` objects) that a program holds, and their ends."""

from __future__ import annotations

import time
import weakref
from collections import deque
from typing import Any


class Handle(weakref.ref[Any]):  # one object instead of a reference, a closure and a record
    """A posted operation, or a batch of them, whose ``Work`` the program still holds."""

    __slots__ = ("any_source", "escaped", "key", "ops", "tensor", "version")
    ops: tuple[int, ...]
    key: int
    tensor: Any
    version: int | None
    any_source: bool
    escaped: bool  # its future was taken: completion is the program's business

    @property
    def changed(self) -> bool:
        """Whether the tensor was modified since the operation was posted."""
        return self.version is not None and self.tensor._version != self.version


class Handles:
    """Follows handles until they are waited for or garbage-collected."""

    def __init__(self) -> None:
        self.dropped: deque[tuple[int, tuple[int, ...]]] = deque()  # when, which operations
        self._held: dict[int, Handle] = {}

    def follow(self, ops: tuple[int, ...], work: Any, tensor: Any, any_source: bool) -> None:
        """Follow ``work``, the handle of ``ops``; ``tensor`` is watched for modifications."""
        handle = Handle(work, self._on_drop)
        handle.ops, handle.key, handle.tensor = ops, id(work), tensor
        handle.version, handle.any_source, handle.escaped = _version(tensor), any_source, False
        self._held[handle.key] = handle

    def _on_drop(self, handle: Any) -> None:
        """Queue a drop: this may run at any time, even while an event is being written."""
        known = self._held.get(handle.key)
        if known is not None and known is handle:
            del self._held[known.key]
            if not known.escaped:
                self.dropped.append((time.monotonic_ns(), known.ops))

    def of(self, work: Any) -> Handle | None:
        """Return the handle of ``work`` if it is followed."""
        return self._held.get(id(work))

    def end(self, work: Any) -> Handle | None:
        """Follow ``work`` no longer: it has ended."""
        return self._held.pop(id(work), None)


def _version(tensor: Any) -> int | None:
    """Return the tensor's modification counter; None where torch keeps none."""
    try:
        return None if tensor is None else int(tensor._version)
    except RuntimeError:  # an inference tensor
        return None
