from __future__ import annotations

import pytest

from harness.api import shared_world
from harness.worlds import World

WORLDS = [
    pytest.param("sim"),
    pytest.param("gloo", marks=pytest.mark.gloo),
]


@pytest.fixture(scope="session")
def gloo() -> World:
    """One warm world for all tests of this process; closed when the process ends."""
    return shared_world("gloo")


@pytest.fixture(params=WORLDS)
def world(request: pytest.FixtureRequest) -> World:
    """Each of the worlds that a case can be run on without a GPU."""
    return shared_world(request.param)
