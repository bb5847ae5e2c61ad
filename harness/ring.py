"""A ring of events in shared memory: one writer (a rank), one reader (the command).

The writer appends before it acts, so that what it was about to do is known even when it never
comes back. The memory has no name in any file system: nothing is left behind, whoever is killed.
When the reader falls behind, the writer waits for it; no event is ever lost.

The ring is made of slots of 32 bytes. A frequent event is a few small numbers and takes one slot
(:meth:`Ring.put`, about a microsecond); any other tuple of plain values is a header slot and as
many more as its bytes need (:meth:`Ring.write`).
"""

from __future__ import annotations

import marshal
import mmap
import os
import struct
import tempfile
import time
from typing import Any

HEADER = 64
DEFAULT_SIZE = 1 << 22  # bytes; about 130,000 events before the reader must have caught up
_HEAD, _TAIL = 0, 1  # 8-byte words: slots written, slots read, since the ring was made
_SLOT = struct.Struct("<BBxxIQIIII")  # code, flags, a, time, b, c, d, spare
SLOT = _SLOT.size
_TUPLE = 0  # the code of a header slot; a frequent event's code is the letter's


def shared_memory(size: int) -> int:
    """Return a file descriptor of ``size`` nameless zero bytes; the caller closes it."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("harness", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.ftruncate(fd, size)
    return fd


class Ring:
    """Both ends of the ring; a process uses either the writing methods or :meth:`read`."""

    def __init__(self, fd: int) -> None:
        size = os.fstat(fd).st_size
        self._memory = mmap.mmap(fd, size)
        self._view = memoryview(self._memory)
        self._words = self._view[:HEADER].cast("Q")
        self._slots = (size - HEADER) // SLOT
        self._data = self._view[HEADER : HEADER + self._slots * SLOT]
        self._head = int(self._words[_HEAD])
        self._room = self._slots - (self._head - int(self._words[_TAIL]))  # at least so much

    def put(
        self, code: int, time_ns: int, a: int, b: int = 0, c: int = 0, d: int = 0, flags: int = 0
    ) -> None:
        """Append a frequent event: ``code`` is its letter's, the numbers are below 2**32."""
        if self._room < 1:
            self._wait_for_room(1)
        head = self._head
        _SLOT.pack_into(
            self._data, (head % self._slots) * SLOT, code, flags, a, time_ns, b, c, d, 0
        )
        self._room -= 1
        self._head = self._words[_HEAD] = head + 1  # last: the reader never sees half an event

    def write(self, event: tuple[Any, ...]) -> None:
        """Append any event, a tuple of plain values; waits while the ring is full."""
        payload = marshal.dumps(event)
        count = 1 + -(-len(payload) // SLOT)
        if count > self._slots:
            raise ValueError(f"an event of {len(payload)} bytes does not fit in the trace")
        self._wait_for_room(count)
        head = self._head
        start = (head % self._slots) * SLOT
        _SLOT.pack_into(self._data, start, _TUPLE, 0, len(payload), 0, 0, 0, 0, 0)
        start = ((head + 1) % self._slots) * SLOT
        first = min(len(payload), len(self._data) - start)
        self._data[start : start + first] = payload[:first]
        if first < len(payload):
            self._data[: len(payload) - first] = payload[first:]
        self._room -= count
        self._head = self._words[_HEAD] = head + count

    def _wait_for_room(self, count: int) -> None:
        while True:
            self._room = self._slots - (self._head - int(self._words[_TAIL]))
            if self._room >= count:
                return
            time.sleep(0.0005)

    @property
    def written(self) -> int:
        """How many slots were ever written: unchanged means that nothing happened."""
        return int(self._words[_HEAD])

    @property
    def backlog(self) -> float:
        """Which part of the ring waits to be read, 0 to 1."""
        return float((self._words[_HEAD] - self._words[_TAIL]) / self._slots)

    def read(self) -> list[tuple[Any, ...]]:
        """Take all events that are there; a frequent one is (letter, time, a, b, c, d, flags)."""
        head, tail = int(self._words[_HEAD]), int(self._words[_TAIL])
        events: list[tuple[Any, ...]] = []
        while tail < head:
            start = (tail % self._slots) * SLOT
            code, flags, a, time_ns, b, c, d, _ = _SLOT.unpack_from(self._data, start)
            tail += 1
            if code != _TUPLE:
                events.append((chr(code), time_ns, a, b, c, d, flags))
                continue
            start = (tail % self._slots) * SLOT
            payload = bytes(self._data[start : start + a])
            payload += bytes(self._data[: a - len(payload)])
            events.append(marshal.loads(payload))
            tail += -(-a // SLOT)
        self._words[_TAIL] = head
        return events

    def close(self) -> None:
        """Unmap the memory; the descriptor is the caller's."""
        self._words.release()
        self._data.release()
        self._view.release()
        self._memory.close()
