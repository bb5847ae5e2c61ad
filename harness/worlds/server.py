"""The command's side of the fork server: makes ranks and stores, and hears of their ends."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import selectors
import signal
import socket
import subprocess
import sys
import time

from harness.ring import DEFAULT_SIZE, Ring, shared_memory
from harness.worlds import Program, WorldError
from harness.worlds.forkserver import (
    ENDED,
    FORKED,
    RANK,
    REFUSED,
    REPLY,
    REQUEST,
    STORE,
    WARM,
    WARMED,
    kill_group,
)
from harness.worlds.link import Link

START_TIMEOUT_S = 120.0
END_TIMEOUT_S = 2.0
OUTPUT_KEPT = 64 * 1024  # characters of a rank's output
OUTPUT_AT_ONCE = 16 * 1024  # bytes read in one call: others wait for their turn
LINE_MOST = 64 * 1024  # bytes of a line; what is longer is passed on in parts


class Child:
    """A process made by the server; ``pid`` is known once the server has told it."""

    def __init__(self) -> None:
        self.pid: int | None = None
        self.exit_status: int | None = None
        self.refused: str | None = None  # why the system did not make it
        self.doomed = False
        self.for_child: list[int] = []

    def kill(self) -> None:
        """Kill it and what it started, now or as soon as its id is known."""
        self.doomed = True
        if self.pid is not None and self.exit_status is None:
            kill_group(self.pid)

    def sent(self) -> None:
        """Close our copies of what the child has now."""
        while self.for_child:
            os.close(self.for_child.pop())

    def require(self) -> None:
        """Raise WorldError when the system did not make it."""
        if self.refused is not None:
            raise WorldError(
                f"the system refuses to start another process: {self.refused}; "
                "end other programs, raise the limit (ulimit -u), or use fewer ranks"
            )


class RankProcess(Child):
    """A rank: its connection, its ring of events, its stacks and its output."""

    def __init__(self) -> None:
        super().__init__()
        with contextlib.ExitStack() as undo:  # when descriptors run out in the middle
            ours, theirs = socket.socketpair()
            undo.callback(ours.close)
            undo.callback(theirs.close)
            ring_fd = shared_memory(DEFAULT_SIZE)
            undo.callback(os.close, ring_fd)
            self.ring = Ring(ring_fd)
            undo.callback(self.ring.close)
            self.stacks_fd = shared_memory(0)
            undo.callback(os.close, self.stacks_fd)
            stacks_end = os.dup(self.stacks_fd)
            undo.callback(os.close, stacks_end)
            self.output_fd, output_end = os.pipe()
            os.set_blocking(self.output_fd, False)
            undo.pop_all()
        self.control = Link(ours)
        self.for_child = [theirs.detach(), ring_fd, stacks_end, output_end]
        self.used = self.hosts = self.warm = False
        self.output = ""
        self._partial = b""
        self.output_open = True
        self._is_closed = False

    def may_run(self, program: Program) -> bool:
        """Whether it has run nothing yet, or things like this program, which need not be fresh."""
        if program.warm and not self.warm:
            return False
        return not self.used or (not program.fresh and self.hosts == program.hosts)

    def read_output(self) -> list[str] | None:
        """Take some of what the rank has printed; None when nothing is there.

        Whole lines are returned, and the last of all is kept.
        """
        if not self.output_open:
            return None
        try:
            data = os.read(self.output_fd, OUTPUT_AT_ONCE)
        except BlockingIOError:
            return None
        if not data:
            self.output_open = False
            return None
        *lines, self._partial = (self._partial + data).split(b"\n")
        if len(self._partial) >= LINE_MOST:
            lines.append(self._partial)
            self._partial = b""
        return self._keep(lines)

    def end_line(self) -> str | None:
        """Return the last line when nothing ended it: no more of it will come."""
        line, self._partial = self._partial, b""
        return self._keep([line])[0] if line else None

    def _keep(self, lines: list[bytes]) -> list[str]:
        text = [line.decode(errors="replace") for line in lines]
        if text:
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
        if self._is_closed:
            return
        self._is_closed = True
        self.control.close()
        self.ring.close()
        os.close(self.stacks_fd)
        os.close(self.output_fd)
        self.sent()


class StoreProcess(Child):
    """A key-value store on a loopback port of its own."""

    def __init__(self) -> None:
        super().__init__()
        with contextlib.ExitStack() as undo:
            listener = undo.enter_context(socket.socket())
            listener.bind(("127.0.0.1", 0))
            listener.listen(128)
            self.port = int(listener.getsockname()[1])
            self.control, theirs = socket.socketpair()
            undo.pop_all()
        self.for_child = [theirs.detach(), listener.detach()]

    def wait_ready(self, server: Server) -> None:
        """Return once the store answers; WorldError when it does not."""
        self.control.settimeout(START_TIMEOUT_S)
        try:
            answer = self.control.recv(1)
        except OSError:
            answer = b""
        if answer != b"!":
            server.pump(0.1)
            self.require()
            raise WorldError("the key-value store of the ranks did not start; try again")

    @property
    def has_ended(self) -> bool:
        """Whether it is gone, by the server's word or because its connection is closed."""
        if self.exit_status is not None:
            return True
        self.control.settimeout(0)
        try:
            return not self.control.recv(1)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        """End the store."""
        self.control.close()
        self.sent()


class Server:
    """A running fork server."""

    def __init__(self) -> None:
        self.socket, theirs = socket.socketpair()
        try:
            self._errors = os.fdopen(shared_memory(0), "w+b")
            self._asked: dict[int, Child] = {}
            self._numbers = itertools.count(1)
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
        except BaseException:
            self.socket.close()
            raise
        finally:
            theirs.close()
        self._ready = self._warm = False

    def wait_ready(self) -> None:
        """Return once the server has imported torch; WorldError when it does not."""
        if self._ready:
            return
        self.socket.settimeout(START_TIMEOUT_S)
        try:
            hello = self.socket.recv(REPLY.size)
        except OSError:
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

    def warm(self) -> None:
        """Have what torch imports lazily in all ranks that are made from now on.

        Returns once it is there; WorldError where the server does not come through it.
        """
        self.wait_ready()
        if not self._warm:
            with contextlib.suppress(OSError):  # it is gone: so says the pump
                self.socket.sendall(REQUEST.pack(WARM, 0))
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._warm:
            if not self.pump(0.5) or time.monotonic() > deadline:
                raise WorldError(f"the fork server did not start: {self._last_error()}")

    def make(self, child: RankProcess | StoreProcess) -> None:
        """Ask for a child; its id, or that it was refused, comes later, with :meth:`pump`."""
        self.wait_ready()
        kind = STORE
        if isinstance(child, RankProcess):
            kind, child.warm = RANK, self._warm
        number = next(self._numbers)
        self._asked[number] = child
        try:
            socket.send_fds(self.socket, [REQUEST.pack(kind, number)], child.for_child)
        except OSError as error:
            del self._asked[number]
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ETOOMANYREFS):
                raise
            raise WorldError("the fork server is gone; run the command again") from None
        except BaseException:  # an interrupt: whether it was sent, nobody can say
            child.doomed = True
            raise
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
            kind, number, pid, status = REPLY.unpack(self._buffer[: REPLY.size])
            self._buffer = self._buffer[REPLY.size :]
            if kind == FORKED:
                child = self._asked.pop(number)
                child.pid = pid
                self._children[pid] = child
                if child.doomed:
                    child.kill()
            elif kind == WARMED:
                self._warm = True
            elif kind == REFUSED:
                child = self._asked.pop(number)
                child.refused, child.exit_status = os.strerror(status), -signal.SIGKILL
            elif kind == ENDED and (ended := self._children.pop(pid, None)) is not None:
                ended.exit_status = status

    def kill(self) -> None:
        """End the server at once, and with it all that it made; safe in any thread."""
        self.process.kill()

    def close(self) -> None:
        """End the server and all that it made; return when they are gone."""
        if not self._ready:
            self.process.kill()  # it has made nothing yet, and importing torch takes seconds
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
