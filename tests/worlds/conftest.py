from __future__ import annotations

import pytest

from harness.api import shared_world
from harness.worlds import World


@pytest.fixture(scope="session")
def gloo() -> World:
    """One warm world for all tests of this process; closed when the process ends."""
    return shared_world("gloo")
