"""A command's simulated and real ranks come from one fork server."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.worlds import Program, RankContext
from harness.worlds.backends import BACKENDS
from harness.worlds.processes import ProcessWorld
from harness.worlds.simulated.isolated import IsolatedWorld
from tests.worlds.call import Call
from tests.worlds.running import processes_of

pytestmark = pytest.mark.gloo


def process(rank: int, world_size: int) -> int:
    return int(Path("/proc/self").readlink().name)  # of a simulated rank os.getpid() is its own


def hosting(context: RankContext) -> dict[int, Any]:
    return {context.rank: os.getpid()}


def has_compiler(rank: int, world_size: int) -> bool:
    return "torch._dynamo" in sys.modules


def test_hosts_of_simulated_ranks_are_no_ranks_after_that() -> None:
    with ProcessWorld(BACKENDS["gloo"]) as world, IsolatedWorld(world) as isolated:
        hosts = set(isolated.run_each(hosting, 2, timeout=60).values())
        (server,) = {world.start().process.pid} & processes_of(world)
        for _ in range(2):
            outcome = world.run(Program(Call(process)), 2, timeout=60)
            assert not {rank.result for rank in outcome.ranks} & hosts
        assert set(isolated.run_each(hosting, 2, timeout=60).values()) == hosts
        simulated = isolated.run(Program(Call(process), warm=False), 2, timeout=60)
        assert {rank.result for rank in simulated.ranks} < hosts
        assert world.start().process.pid == server
        isolated.close()
        assert world.start().alive


def test_ranks_have_torch_s_compiler_only_where_they_need_it() -> None:
    with ProcessWorld(BACKENDS["gloo"]) as world:
        outcome = world.run(Program(Call(has_compiler), warm=False), 2, timeout=60)
        assert {rank.result for rank in outcome.ranks} == {False}
        outcome = world.run(Program(Call(has_compiler)), 2, timeout=60)
        assert {rank.result for rank in outcome.ranks} == {True}
