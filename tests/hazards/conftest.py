from __future__ import annotations

import pytest

from harness.api import shared_world
from harness.worlds import World


@pytest.fixture(scope="session")
def gloo() -> World:
    """One warm world for all tests of this process; closed when the process ends."""
    import os

    if os.environ.get("SIMTEST"):
        from harness.worlds.simulated.world import SimulatedWorld

        return SimulatedWorld()
    return shared_world("gloo")
