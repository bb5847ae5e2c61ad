"""What a backend needs, and what it says when that is not there."""

from __future__ import annotations

import pytest
import torch

from harness.worlds import WorldError, open_world
from harness.worlds.backends import BACKENDS, Backend, Gloo, Nccl

NCCL = BACKENDS["nccl"]


def test_both_backends_are_known() -> None:
    assert tuple(BACKENDS) == ("gloo", "nccl")


def test_an_unknown_backend_is_refused_with_the_known_ones() -> None:
    with pytest.raises(WorldError, match=r"unknown backend 'nope'; use one of sim, gloo, nccl$"):
        open_world("nope")


def test_gloo_needs_nothing() -> None:
    BACKENDS["gloo"].require(64)


def with_gpus(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)


def test_nccl_needs_a_build_of_torch_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: False)
    with pytest.raises(WorldError, match="no NCCL; install a CUDA build of torch, or use"):
        NCCL.require(1)


@pytest.mark.parametrize(("count", "text"), [(0, "0 are"), (1, "1 is"), (3, "3 are")])
def test_nccl_needs_a_gpu_for_each_rank(
    monkeypatch: pytest.MonkeyPatch, count: int, text: str
) -> None:
    with_gpus(monkeypatch, count)
    with pytest.raises(WorldError, match=f"4 ranks need 4 GPUs and {text} visible; use a smaller"):
        NCCL.require(4)


def test_nccl_with_a_gpu_for_each_rank_is_content(monkeypatch: pytest.MonkeyPatch) -> None:
    with_gpus(monkeypatch, 4)
    NCCL.require(4)


def test_a_world_that_cannot_be_is_refused_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from harness.worlds import Program
    from harness.worlds.processes import ProcessWorld

    with_gpus(monkeypatch, 1)
    world = ProcessWorld(NCCL)
    with pytest.raises(WorldError, match="2 ranks need 2 GPUs"):
        world.run(Program(print), 2, timeout=1)
    assert world._server is None
    world.close()


def test_every_rank_of_nccl_has_the_gpu_of_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    current: list[int] = []
    monkeypatch.setattr(torch.cuda, "set_device", current.append)
    for rank in (0, 3):
        assert NCCL.device(rank) == f"cuda:{rank}"
        assert NCCL.init_options(rank) == {"device_id": torch.device("cuda", rank)}
        NCCL.prepare(rank)
    assert current == [0, 3]


def test_nccl_waits_for_the_gpu_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[bool] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: waited.append(True))
    NCCL.finish()
    assert waited == [True]


def test_waits_that_only_order_streams_are_made_to_wait() -> None:
    assert NCCL.host_blocking
    assert not BACKENDS["gloo"].host_blocking


def test_ranks_compute_on_one_thread_as_under_torchrun() -> None:
    for backend in BACKENDS.values():
        assert backend.environment(0)["OMP_NUM_THREADS"] == "1"


def test_gloo_keeps_to_this_machine() -> None:
    assert BACKENDS["gloo"].environment(0)["GLOO_SOCKET_IFNAME"] in ("lo", "lo0")
    assert BACKENDS["gloo"].device(5) == "cpu"
    assert BACKENDS["gloo"].init_options(5) == {}


def test_a_new_backend_is_one_small_class() -> None:
    class Other(Backend):
        """All that it must say is its name."""

    other = Other("other")
    other.require(8)
    other.prepare(0)
    other.finish()
    assert (other.device(1), other.environment(1), other.init_options(1)) == ("cpu", {}, {})
    assert {type(backend) for backend in BACKENDS.values()} == {Gloo, Nccl}
