"""The command's side of the fork server: makes ranks and stores, and hears of their ends."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from multiprocessing.connection import Connection

from harness.ring import DEFAULT_SIZE, Ring, shared_memory
from harness.worlds import WorldError
from harness.worlds.forkserver import ENDED, FORKED, RANK, REPLY, REQUEST, STORE, kill_group

START_TIMEOUT_S = 120.0
END_TIMEOUT_S = 2.0
OUTPUT_KEPT = 64 * 1024  # characters of a rank's output


class Child:
    """A process made by the server; ``pid`` is known once the server has told it."""

    def __init__(self) -> None:
        self.pid: int | None = None
        self.exit_status: int | None = None
        self.doomed = False

    def kill(self) -> None:
        """Kill it and what it started, now or as soon as its id is known."""
        self.doomed = True
        if self.pid is not None and self.exit_status is None:
            kill_group(self.pid)


class RankProcess(Child):
    """A rank: its connection, its ring of events, its stacks and its output."""

    def __init__(self) -> None:
        super().__init__()
        ours, theirs = socket.socketpair()
        self.control = Connection(ours.detach())
        ring_fd = shared_memory(DEFAULT_SIZE)
        self.ring = Ring(ring_fd)
        self.stacks_fd = shared_memory(0)
        self.output_fd, output_end = os.pipe()
        os.set_blocking(self.output_fd, False)
        self.for_child = [theirs.detach(), ring_fd, self.stacks_fd, output_end]
        self.used = False
        self.output = ""
        self._partial = b""
        self.output_open = True

    def sent(self) -> None:
        """Close our copies of what the child has now."""
        control, ring, _, output = self.for_child
        for fd in (control, ring, output):
            os.close(fd)
        self.for_child = []

    def read_output(self) -> list[str]:
        """Take what the rank has printed; return whole lines, keep the last of all."""
        chunks = []
        while self.output_open:
            try:
                data = os.read(self.output_fd, 1 << 16)
            except BlockingIOError:
                break
            if not data:
                self.output_open = False
            chunks.append(data)
        if not chunks:
            return []
        *lines, self._partial = (self._partial + b"".join(chunks)).split(b"\n")
        return self._keep(lines)

    def end_line(self) -> str | None:
        """Return the last line when nothing ended it: no more of it will come."""
        line, self._partial = self._partial, b""
        return self._keep([line])[0] if line else None

    def _keep(self, lines: list[bytes]) -> list[str]:
        text = [line.decode(errors="replace") for line in lines]
        self.output = (self.output + "".join(f"{line}\n" for line in text))[-OUTPUT_KEPT:]
        return text

    def stack_dump(self) -> str:
        """Ask the rank for its Python stacks; empty when it cannot answer."""
        if self.pid is None or self.exit_status is not None:
            return ""
        os.ftruncate(self.stacks_fd, 0)
        os.lseek(self.stacks_fd, 0, os.SEEK_SET)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGUSR1)
        deadline, seen = time.monotonic() + 1.0, -1
        while time.monotonic() < deadline:
            size = os.fstat(self.stacks_fd).st_size
            if size and size == seen:
                break
            seen = size
            time.sleep(0.02)
        return os.pread(self.stacks_fd, 1 << 20, 0).decode(errors="replace")

    def close(self) -> None:
        """Release all that belongs to this rank here; the rank itself ends with its connection."""
        self.control.close()
        self.ring.close()
        for fd in [self.stacks_fd, self.output_fd, *self.for_child[:2], *self.for_child[3:]]:
            os.close(fd)
        self.for_child = []


class StoreProcess(Child):
    """A key-value store on a loopback port of its own."""

    def __init__(self) -> None:
        super().__init__()
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        self.port = int(listener.getsockname()[1])
        self._control, theirs = socket.socketpair()
        self.for_child = [theirs.detach(), listener.detach()]

    def sent(self) -> None:
        """Close our copies of what the child has now."""
        for fd in self.for_child:
            os.close(fd)
        self.for_child = []

    def wait_ready(self) -> None:
        """Return once the store answers."""
        self._control.settimeout(START_TIMEOUT_S)
        if self._control.recv(1) != b"!":
            raise WorldError("the key-value store of the ranks did not start; try again")

    def close(self) -> None:
        """End the store."""
        self._control.close()
        self.sent()


class Server:
    """A running fork server."""

    def __init__(self) -> None:
        self.socket, theirs = socket.socketpair()
        self._errors = os.fdopen(shared_memory(0), "w+b")
        self._asked: deque[Child] = deque()
        self._children: dict[int, Child] = {}
        self._buffer = b""
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "import sys; sys.path[:] = sys.argv[3:]; "
                "from harness.worlds.forkserver import main; main()",
                str(theirs.fileno()),
                str(os.getpid()),
                *sys.path,
            ],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=self._errors,
            stderr=self._errors,
            start_new_session=True,
        )
        theirs.close()
        self._ready = False

    def wait_ready(self) -> None:
        """Return once the server has imported torch."""
        if self._ready:
            return
        self.socket.settimeout(START_TIMEOUT_S)
        try:
            hello = self.socket.recv(REPLY.size)
        except TimeoutError:
            hello = b""
        if not hello:
            raise WorldError(f"the fork server did not start: {self._last_error()}")
        self.socket.setblocking(True)
        self._ready = True

    def _last_error(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit status {self.process.poll()}"

    @property
    def alive(self) -> bool:
        """Whether the server still runs."""
        return self.process.poll() is None

    def make(self, child: RankProcess | StoreProcess) -> None:
        """Ask for a child; its id comes later, with :meth:`pump`."""
        self.wait_ready()
        kind = RANK if isinstance(child, RankProcess) else STORE
        self._asked.append(child)
        try:
            socket.send_fds(self.socket, [REQUEST.pack(kind)], child.for_child)
        except OSError:
            raise WorldError("the fork server is gone; run the command again") from None
        child.sent()

    def pump(self, timeout: float = 0.0) -> bool:
        """Take in what the server has to say; False when it is gone."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.socket, selectors.EVENT_READ)
            while selector.select(timeout):
                try:
                    data = self.socket.recv(4096)
                except OSError:
                    data = b""
                if not data:
                    return False
                self._take(data)
                timeout = 0.0
        return True

    def _take(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= REPLY.size:
            kind, pid, status = REPLY.unpack(self._buffer[: REPLY.size])
            self._buffer = self._buffer[REPLY.size :]
            if kind == FORKED:
                child = self._asked.popleft()
                child.pid = pid
                self._children[pid] = child
                if child.doomed:
                    child.kill()
            elif kind == ENDED and (ended := self._children.pop(pid, None)) is not None:
                ended.exit_status = status

    def close(self) -> None:
        """End the server and all that it made; return when they are gone."""
        with contextlib.suppress(OSError):
            self.socket.close()
        try:
            self.process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for pid in self._children:
            kill_group(pid)
        self._errors.close()
