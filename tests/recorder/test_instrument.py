"""Wrapping ``torch.distributed``: taken back without a trace, and silent while nobody records."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ProcessGroup, Work
from torch.distributed import distributed_c10d as c10d

from harness import instrument
from harness.recorder import Recorder, activate
from tests.recorder.sink import Events


def attributes() -> dict[tuple[str, str], int]:
    """The identity of all that might be replaced."""
    found = {}
    for owner in (ProcessGroup, Work):
        for name in dir(owner):
            found[owner.__name__, name] = id(owner.__dict__.get(name))
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith("torch.distributed"):
            for name, value in list(vars(module).items()):
                found[module_name, name] = id(value)
    return found


@pytest.fixture
def installed() -> Iterator[None]:
    instrument.install()
    yield
    activate(None)
    instrument.uninstall()


@pytest.fixture
def alone(installed: None) -> Iterator[None]:
    """A group of one rank in this process, made under the wrappers."""
    dist.init_process_group(
        "gloo", store=torch._C._distributed_c10d.HashStore(), rank=0, world_size=1
    )
    yield
    activate(None)
    dist.destroy_process_group()


def test_what_was_installed_is_taken_back_to_the_last_attribute() -> None:
    before = attributes()
    instrument.install()
    assert attributes() != before
    instrument.uninstall()
    assert attributes() == before


def test_a_group_works_as_before_when_the_wrappers_are_gone() -> None:
    instrument.install()
    instrument.uninstall()
    dist.init_process_group(
        "gloo", store=torch._C._distributed_c10d.HashStore(), rank=0, world_size=1
    )
    try:
        dist.barrier()
        work = dist.all_reduce(torch.ones(1), async_op=True)
        assert work is not None
        work.wait()
    finally:
        dist.destroy_process_group()


def test_to_install_twice_is_to_install_once(installed: None) -> None:
    before = attributes()
    instrument.install()
    assert attributes() == before


def test_the_wrapped_functions_keep_their_names(installed: None) -> None:
    assert dist.init_process_group.__name__ == "init_process_group"
    assert c10d.new_group is dist.new_group
    assert ProcessGroup.send.__name__ == "send"


def test_calls_pass_through_while_nobody_records(alone: None) -> None:
    tensor = torch.ones(3)
    assert dist.all_reduce(tensor) is None
    work = dist.all_reduce(tensor, async_op=True)
    assert work is not None
    work.wait()
    assert work.is_completed()
    dist.new_group([0])
    with pytest.raises(ValueError, match="destination rank"):
        dist.send(tensor, 0)


def record(**options: Any) -> Events:
    sink = Events()
    activate(Recorder(sink, **options))
    return sink


def test_only_what_happens_while_someone_records_is_written(alone: None) -> None:
    sink = record()
    dist.barrier()
    activate(None)
    dist.barrier()
    assert [op.kind for op in sink.history().ops.values()] == ["barrier"]


def test_a_post_is_written_before_the_wait_and_the_wait_before_its_end(alone: None) -> None:
    sink = record()
    dist.all_reduce(torch.ones(1))
    letters = [event[0] for event in sink.events]
    assert letters.index("P") < letters.index("W") < letters.index("D")


def test_an_operation_that_the_backend_refuses_was_never_posted(alone: None) -> None:
    sink = record()
    group = c10d._get_default_group()
    with pytest.raises((RuntimeError, ValueError)):
        group.send([torch.ones(2)], 0, -1)
    (op,) = sink.history().ops.values()
    assert op.state.value == "failed"


def test_a_handle_whose_future_was_taken_may_be_dropped(alone: None) -> None:
    sink = record()
    work = dist.all_reduce(torch.ones(1), async_op=True)
    assert work is not None
    future = work.get_future()
    del work
    dist.barrier()
    future.wait()
    assert "X" not in [event[0] for event in sink.events]


def test_the_arguments_of_a_collective_are_written(alone: None) -> None:
    sink = record()
    dist.all_reduce(torch.ones(2, 3, dtype=torch.bfloat16), op=dist.ReduceOp.MAX)
    dist.broadcast(torch.ones(5), 0)
    first, second = sink.history().ops.values()
    assert (first.numel, first.shape, first.dtype) == (6, (2, 3), "bfloat16")
    assert (first.reduce_op, first.root) == ("MAX", None)
    assert (second.numel, second.root, second.reduce_op) == (5, 0, None)


def test_gathers_of_uneven_sizes_may_differ_between_ranks(alone: None) -> None:
    sink = record()
    dist.all_to_all_single(torch.ones(2), torch.ones(2))
    dist.all_to_all_single(torch.ones(2), torch.ones(2), [2], [2])
    assert [op.splits for op in sink.history().ops.values()] == [False, ((2,), (2,))]


def test_a_wait_with_a_timeout_gives_up_and_another_does_not(alone: None) -> None:
    sink = record()
    for arguments in [(), (datetime.timedelta(seconds=5),)]:
        work = dist.all_reduce(torch.ones(1), async_op=True)
        assert work is not None
        work.wait(*arguments)
    waits = [event for event in sink.events if event[0] == "W"]
    assert [bool(event[6] & 1) for event in waits] == [False, True]


def test_a_dropped_handle_is_written_with_the_next_event(alone: None) -> None:
    sink = record()
    dist.all_reduce(torch.ones(1), async_op=True)
    dist.barrier()
    assert [event[0] for event in sink.events if event[0] in "PX"] == ["P", "X", "P"]
