"""The fork server: a process that has imported torch once and makes ranks out of itself.

It owns no state of any case. It answers requests from one socket, tells when a child ends, and
when the socket closes (the command ended, however it ended) it kills all it made and leaves.
A rank dies with the server (the kernel sees to it on Linux), so nothing outlives the command.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import importlib
import os
import selectors
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator

from harness.warm import warm_torch

REQUEST = struct.Struct("<cI")  # what is wanted, the request's number
REPLY = struct.Struct("<cIii")  # kind, the request's number, pid, exit status or error number
RANK, STORE, WARM = b"R", b"S", b"W"
FORKED, REFUSED, ENDED, WARMED = b"F", b"N", b"E", b"M"
DESCRIPTORS = {RANK: 4, STORE: 2}  # that go with a request
_PR_SET_PDEATHSIG = 1
_PRELOADED = (
    "cloudpickle",
    "numpy",
    "harness.ahead",  # and all that a host of simulated ranks needs
    "harness.parity.program",
    "harness.targets",
    "harness.worlds.rank",
    "pipeline.executor",
    "pipeline.lower",
    "pipeline.model",
)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when ``parent`` ends, where the kernel can."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def preload() -> None:
    """Import what every rank needs, so that a fork has it."""
    import torch
    import torch.distributed

    torch.set_num_threads(1)
    for name in _PRELOADED:
        importlib.import_module(name)
    from harness import instrument

    instrument.install()


def _share_pages() -> None:
    """Let ranks share what is in memory now, instead of copying it when they collect garbage."""
    gc.collect()
    gc.freeze()


def require_forkable() -> None:
    """Leave, with a line that says so, when CUDA was initialised: no fork could use it."""
    import torch

    if torch.cuda.is_initialized() or torch.cuda._is_in_bad_fork():
        sys.exit(
            "CUDA was initialised while torch was imported, and ranks made after that cannot use "
            "it: look for a sitecustomize, .pth file or plugin of torch that does so"
        )
    assert threading.active_count() == 1, "a fork keeps only the thread that forks"


class ForkServer:
    """Serves one command until its socket closes."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._children: set[int] = set()

    def serve(self) -> None:
        """Answer requests until the command is gone, then leave nothing behind."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        selector = selectors.DefaultSelector()
        selector.register(self._control, selectors.EVENT_READ)
        selector.register(reader, selectors.EVENT_READ)
        inherited = [reader, writer, selector.fileno()]
        try:
            while True:
                for key, _ in selector.select():
                    if key.fd == reader:
                        os.read(reader, 4096)
                    elif not self._request(inherited):
                        return
                self._reap()
        finally:
            for pid in self._children:
                kill_group(pid)

    def _request(self, inherited: list[int]) -> bool:
        try:
            data, fds, _, _ = socket.recv_fds(self._control, REQUEST.size, 8)
            while data and len(data) < REQUEST.size:
                data += self._control.recv(REQUEST.size - len(data))
        except ConnectionError:
            return False
        if not data:
            return False
        kind, number = REQUEST.unpack(data)
        if kind == WARM:
            with contextlib.suppress(Exception):  # whoever needs it will say why it cannot be had
                warm_torch()
            require_forkable()
            _share_pages()
            self._reply(WARMED, number, os.getpid(), 0)
            return True
        server = os.getpid()
        try:
            if len(fds) < DESCRIPTORS[kind]:  # there was no room for them here
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            pid = os.fork()
            if pid == 0:
                _child(kind, fds, [*inherited, self._control.fileno()], server)
        except OSError as error:
            self._reply(REFUSED, number, 0, error.errno or errno.EAGAIN)
            return True
        finally:
            for fd in fds:
                os.close(fd)
        with contextlib.suppress(OSError):  # as the child does: whichever of the two comes first
            os.setpgid(pid, pid)
        self._children.add(pid)
        self._reply(FORKED, number, pid, 0)
        return True

    def _reap(self) -> None:
        for pid in list(self._children):
            with contextlib.suppress(ChildProcessError):
                done, status = os.waitpid(pid, os.WNOHANG)
                if done:
                    self._children.discard(pid)
                    kill_group(pid)  # what the rank itself had started
                    self._reply(ENDED, 0, pid, os.waitstatus_to_exitcode(status))

    def _reply(self, kind: bytes, number: int, pid: int, status: int) -> None:
        with contextlib.suppress(OSError):  # the command is gone: the next read says so
            self._control.sendall(REPLY.pack(kind, number, pid, status))


def kill_group(pid: int) -> None:
    """Kill the process group that ``pid`` leads."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _child(kind: bytes, fds: list[int], inherited: list[int], server: int) -> None:
    """Become a rank or a store; never returns."""
    status = 1
    try:
        os.setpgid(0, 0)
        die_with_parent(server)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for fd in inherited:
            os.close(fd)
        bodies: dict[bytes, Callable[[list[int]], int]] = {RANK: _rank, STORE: _store}
        status = bodies[kind](fds)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _rank(fds: list[int]) -> int:
    from harness.worlds.rank import serve

    return serve(*fds)


def _store(fds: list[int]) -> int:
    """Host a key-value store on the listening socket given, until the command closes."""
    from torch._C._distributed_c10d import TCPStore

    control = socket.socket(fileno=fds[0])
    listener = socket.socket(fileno=fds[1])
    port = listener.getsockname()[1]
    store = TCPStore(
        "127.0.0.1",
        port,
        is_master=True,
        wait_for_workers=False,
        master_listen_fd=listener.detach(),
    )
    control.sendall(b"!")
    control.recv(1)  # ends with the command
    del store
    return 0


@contextlib.contextmanager
def _leaving_with(parent: int) -> Iterator[None]:
    """End this process when ``parent`` ends meanwhile: importing torch takes seconds."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.2):
            if os.getppid() != parent:
                os._exit(1)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def main() -> None:
    """Start serving on the socket whose descriptor is the first argument."""
    control = socket.socket(fileno=int(sys.argv[1]))
    parent = int(sys.argv[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with _leaving_with(parent):
        preload()
    require_forkable()
    _share_pages()
    if os.getppid() != parent:
        return
    control.sendall(REPLY.pack(FORKED, 0, os.getpid(), 0))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    ForkServer(control).serve()
    os._exit(0)  # nothing is left to do, and taking torch down takes a second


if __name__ == "__main__":
    main()
