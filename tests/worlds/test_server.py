"""The fork server: what it may not do before it forks, and what it says when it cannot."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.ring import shared_memory
from harness.worlds import World, WorldError, open_world
from harness.worlds import server as of_server
from harness.worlds.processes import DESCRIPTORS_OF_A_RANK
from harness.worlds.server import RankProcess, Server
from tests.programs import correct
from tests.worlds.running import assert_clean, assert_gone, open_descriptors, run

pytestmark = pytest.mark.gloo
ROOT = Path(__file__).resolve().parents[2]


def python(code: str, *, timeout: float = 100) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def test_nothing_looks_at_the_accelerator_before_a_fork() -> None:
    """An optimizer's step asks for the accelerator's current stream, which initialises CUDA."""
    done = python(
        """
import torch

def touched(*args, **kwargs):
    raise SystemExit("the accelerator was looked at")

torch.accelerator.is_available = lambda: True
for name in ("current_stream", "synchronize", "device_count", "current_device_index"):
    setattr(torch.accelerator, name, touched)
torch.cuda._lazy_init = torch.cuda.current_stream = touched
torch.optim.Optimizer._accelerator_graph_capture_health_check = touched
torch.optim.Optimizer._cuda_graph_capture_health_check = touched

from harness.warm import warm_torch
from harness.worlds.forkserver import preload, require_forkable

preload()
require_forkable()

import sys
from pipeline.optimizers import OPTIMIZERS

def imported(optimizers):
    before = set(sys.modules)
    for make in optimizers:
        make([weight], lr=0.1).step()
    return len(set(sys.modules) - before)

torch.optim.Optimizer._accelerator_graph_capture_health_check = lambda self: None
torch.optim.Optimizer._cuda_graph_capture_health_check = lambda self: None
weight = torch.nn.Parameter(torch.zeros(1))
weight.grad = torch.zeros(1)
ours = imported(OPTIMIZERS.values())
warm_torch()
print(ours, imported((torch.optim.Adam, torch.optim.SGD)))
"""
    )
    assert done.returncode == 0, done.stderr
    assert all(int(count) <= 2 for count in done.stdout.split())  # nothing is left to import


@pytest.mark.parametrize("sign", ["is_initialized", "_is_in_bad_fork"])
def test_a_server_with_cuda_initialised_refuses_to_serve_in_one_line(sign: str) -> None:
    done = python(
        f"""
import os, socket, sys, torch
ours, theirs = socket.socketpair()
torch.cuda.{sign} = lambda: True
from harness.worlds import forkserver
forkserver.preload = lambda: None
sys.argv[1:] = [str(theirs.fileno()), str(os.getppid())]
forkserver.main()
"""
    )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "CUDA was initialised" in done.stderr


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def born(server: Server, child: RankProcess) -> int:
    deadline = time.monotonic() + 20
    while child.pid is None:
        assert server.pump(0.1)
        assert time.monotonic() < deadline
    return child.pid


def test_a_child_leads_its_group_as_soon_as_its_id_is_known(server: Server) -> None:
    for _ in range(20):
        child = RankProcess()
        server.make(child)
        pid = born(server, child)
        assert os.getpgid(pid) == pid
        child.kill()
        child.close()


def test_every_child_gets_its_own_id_whatever_strikes_in_between(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, strikes = socket.send_fds, [True, True]

    def struck(*args: Any) -> int:
        if len(strikes) == 2:  # it was sent, and this is not known
            real(*args)
            strikes.pop()
            raise KeyboardInterrupt
        if strikes:
            strikes.pop()
            raise BrokenPipeError
        return real(*args)

    monkeypatch.setattr(socket, "send_fds", struck)
    first, second, third = RankProcess(), RankProcess(), RankProcess()
    with pytest.raises(KeyboardInterrupt):
        server.make(first)
    with pytest.raises(WorldError):
        server.make(second)
    server.make(third)
    pids = born(server, first), born(server, third)
    assert pids[0] != pids[1]
    assert second.pid is None
    assert_gone([pids[0]])  # nobody wants it any more
    third.kill()
    assert_gone([pids[1]])
    while third.exit_status is None:
        assert server.pump(0.1)
    assert third.exit_status == -signal.SIGKILL
    for child in (first, second, third):
        child.close()


def test_a_server_that_may_not_fork_goes_on_and_the_world_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flag = tmp_path / "full"
    (tmp_path / "sitecustomize.py").write_text(
        f"""
import errno, os
real = os.fork
def fork():
    if os.path.exists({str(flag)!r}):
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    return real()
os.fork = fork
"""
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with open_world("gloo") as world:
        pid = world.start().process.pid  # type: ignore[attr-defined]
        flag.touch()
        for _ in range(2):
            with pytest.raises(WorldError, match="refuses to start another process"):
                run(world, correct.everyone_counts)
        flag.unlink()
        assert_clean(run(world, correct.everyone_counts))
        flag.touch()
        for _ in range(2):  # there is a store, and some ranks
            with pytest.raises(WorldError, match="refuses to start another process"):
                run(world, correct.everyone_counts, size=9)
        flag.unlink()
        assert_clean(run(world, correct.everyone_counts, size=3))
        assert world.start().process.pid == pid  # type: ignore[attr-defined]


def test_a_limit_on_descriptors_is_told_in_one_line_and_leaks_nothing(gloo: World) -> None:
    import resource

    run(gloo, correct.everyone_counts)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = open_descriptors()
    try:
        for allowed in (before + 20, 40):  # enough here to begin with, and too few at once
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(allowed, before + 3), limits[1]))
            with pytest.raises(WorldError, match=r"30 ranks need about \d+ file descriptors"):
                run(gloo, correct.everyone_counts, size=30)
            assert open_descriptors() == before
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert_clean(run(gloo, correct.everyone_counts))


def test_descriptors_that_run_out_in_the_middle_leave_nothing_half_built(
    gloo: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno

    run(gloo, correct.everyone_counts)
    before = open_descriptors()
    real, calls = shared_memory, [0]

    def full(size: int) -> int:
        calls[0] += 1
        if calls[0] == 4:  # of the second rank, when the first is made
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real(size)

    monkeypatch.setattr(of_server, "shared_memory", full)
    idle = len(gloo._idle)  # type: ignore[attr-defined]
    with pytest.raises(WorldError, match="file descriptors"):
        run(gloo, correct.everyone_counts, size=idle + 4)
    made = len(gloo._idle) - idle  # type: ignore[attr-defined]
    assert open_descriptors() == before + DESCRIPTORS_OF_A_RANK * made
    monkeypatch.undo()
    assert_clean(run(gloo, correct.everyone_counts))


def test_a_server_or_store_that_does_not_answer_is_a_world_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(of_server, "START_TIMEOUT_S", 0.01)
    server = Server()
    with pytest.raises(WorldError, match="did not start"):
        server.wait_ready()
    store = of_server.StoreProcess()
    with pytest.raises(WorldError, match="did not start"):
        store.wait_ready(server)
    store.close()
    started = time.monotonic()
    server.close()
    assert time.monotonic() - started < 1  # it need not finish importing torch
