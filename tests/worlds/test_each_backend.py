"""What must hold on every backend of real ranks; on NCCL where there are GPUs for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist

from harness.case import Case
from harness.fuzz import Limits, campaign
from harness.judge import judge
from harness.targets import parse_target
from harness.worlds import Program, RankContext, World, open_world


@pytest.fixture
def world(backend: str) -> Iterator[World]:
    with open_world(backend) as opened:
        yield opened


def ring(context: RankContext) -> float:
    """Pass a value once round the ring, then sum over the ranks."""
    right, left = (context.rank + 1) % context.world_size, (context.rank - 1) % context.world_size
    sent = torch.tensor([float(context.rank)], device=context.device)
    taken = torch.empty_like(sent)
    operations = [dist.P2POp(dist.isend, sent, right), dist.P2POp(dist.irecv, taken, left)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    dist.all_reduce(taken)
    return float(taken.item())


def receive_first(context: RankContext) -> None:
    """Wait for the other rank's message, on both ranks."""
    dist.recv(torch.empty(1, device=context.device), 1 - context.rank)


def test_a_ring_and_a_sum_end_well(world: World) -> None:
    outcome = world.run(Program(ring), 2, timeout=60)
    assert [rank.result for rank in outcome.ranks] == [1.0, 1.0]
    assert judge(outcome, Case("ring", 2, backend=world.name)) == []


def test_two_ranks_that_receive_first_are_a_deadlock(world: World) -> None:
    outcome = world.run(Program(receive_first), 2, timeout=60)
    (finding,) = judge(outcome, Case("receive_first", 2, backend=world.name))
    assert (finding.code, outcome.ending) == ("deadlock", "stuck")


def test_a_schedule_is_the_monolith_on_two_ranks(world: World) -> None:
    limits = Limits(worlds=(2,), chunks=(1, 2, 5), cases=6)
    report = campaign(parse_target("1f1b", for_command="check"), limits, world)
    assert report.ok, str(report)
    assert report.cases.clean == 6
