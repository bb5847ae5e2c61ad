"""Every test here also checks that its runs have left this process as it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.api import shared_world
from harness.worlds import Simulated, World
from tests.programs import correct
from tests.simulated.snapshot import differences, snapshot, threads
from tests.worlds.running import run


@pytest.fixture(scope="session")
def sim() -> World:
    """The world in this process, with all loaded that a run loads only once."""
    world = shared_world("sim")
    for how in (Simulated(), Simulated(guard=True)):
        run(world, correct.everyone_counts, simulated=how)
    return world


@pytest.fixture(autouse=True)
def nothing_is_left(sim: World) -> Iterator[None]:
    """No thread more, nothing of torch or Python changed."""
    before, running = snapshot(), threads()
    yield
    assert differences(before, snapshot()) == {}
    assert threads() - running == set()
