"""The command's end of the connection to a rank: it never waits for a rank that has stopped.

The rank's end is a :class:`multiprocessing.connection.Connection`, whose framing this speaks.
"""

from __future__ import annotations

import pickle
import socket
import struct
from typing import Any

SEND_TIMEOUT_S = 10.0  # for a rank to take what it is sent
_SIZE, _LONG_SIZE = struct.Struct("!i"), struct.Struct("!Q")
_CHUNK = 1 << 16
_AT_ONCE = 1 << 22  # bytes taken in one call: others wait for their turn


class Link:
    """Sends and receives objects; what has come in part waits here for the rest."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._socket.setblocking(False)
        self._buffer = bytearray()

    def fileno(self) -> int:
        """Return the descriptor, for a selector."""
        return self._socket.fileno()

    def send(self, value: Any) -> None:
        """Send an object; OSError when the rank is gone, or does not take it in time."""
        data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        if len(data) > 0x7FFFFFFF:
            head = _SIZE.pack(-1) + _LONG_SIZE.pack(len(data))
        else:
            head = _SIZE.pack(len(data))
        self._socket.settimeout(SEND_TIMEOUT_S)
        try:
            self._socket.sendall(head + data)
        finally:
            self._socket.setblocking(False)

    def receive(self) -> list[Any]:
        """Return the objects that have come whole; EOFError when there will be no more."""
        ended, taken = False, 0
        while taken < _AT_ONCE:
            try:
                data = self._socket.recv(_CHUNK)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            if not data:
                ended = True
                break
            self._buffer += data
            taken += len(data)
        found = []
        while (message := self._next()) is not None:
            found.append(pickle.loads(message))
        if ended and not found:
            raise EOFError
        return found

    def _next(self) -> bytes | None:
        start = _SIZE.size
        if len(self._buffer) < start:
            return None
        (size,) = _SIZE.unpack_from(self._buffer)
        if size == -1:
            if len(self._buffer) < start + _LONG_SIZE.size:
                return None
            (size,) = _LONG_SIZE.unpack_from(self._buffer, start)
            start += _LONG_SIZE.size
        if len(self._buffer) < start + size:
            return None
        message = bytes(self._buffer[start : start + size])
        del self._buffer[: start + size]
        return message

    def close(self) -> None:
        """Close the connection: the rank ends."""
        self._socket.close()
