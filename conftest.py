"""What every test here runs under: deadlines, hypothesis profiles, and the choice of worlds."""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Iterator

import hypothesis
import pytest

# Seconds a test may take, by its mark; pyproject.toml has the figure for all others.
DEADLINES = {"gloo": 240, "nccl": 300, "slow": 600}
WORLDS = ("sim", "gloo", "nccl")
SIMULATOR = "harness.worlds.simulated"

# No deadline per example and no complaint about slowness: the machine may be busy.
hypothesis.settings.register_profile(
    "dev",
    hypothesis.settings.get_profile("default"),
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile(
    "ci", hypothesis.settings.get_profile("dev"), derandomize=True, print_blob=True
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--backend",
        action="append",
        choices=WORLDS,
        help="a world to run the tests that take `backend` on; may be repeated (default: gloo)",
    )


def pytest_configure(config: pytest.Config) -> None:
    profile = os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev")
    if config.getoption("--hypothesis-profile", None):
        return
    try:
        hypothesis.settings.load_profile(profile)
    except hypothesis.errors.InvalidArgument:
        raise pytest.UsageError(f"HYPOTHESIS_PROFILE={profile}: use dev or ci") from None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each test that takes `backend` the chosen worlds, with the marks they imply."""
    parametrized = (mark.args[0] for mark in metafunc.definition.iter_markers("parametrize"))
    if "backend" not in metafunc.fixturenames or "backend" in parametrized:
        return
    marks = {"gloo": [pytest.mark.gloo], "nccl": [pytest.mark.nccl(gpus=2)]}
    chosen = metafunc.config.getoption("--backend") or ["gloo"]
    worlds = [pytest.param(world, marks=marks.get(world, [])) for world in dict.fromkeys(chosen)]
    metafunc.parametrize("backend", worlds, indirect=True)


@pytest.fixture(autouse=True, scope="session")
def _signals_stay() -> Iterator[None]:
    """Let no command that a test runs in this process take over its signals."""
    from harness.cli import interrupts

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interrupts, "install", lambda: None)
        yield


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> str:
    """Name the world to run on, as `--backend` of the command does."""
    world = str(request.param)
    if world == "sim" and importlib.util.find_spec(SIMULATOR) is None:
        pytest.skip(f"needs the simulator: {SIMULATOR} does not exist yet")
    return world


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give a marked test the longest of its marks' `DEADLINES`, unless it sets its own."""
    for item in items:
        limits = [limit for mark, limit in DEADLINES.items() if item.get_closest_marker(mark)]
        if limits and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(max(limits)))


@functools.cache
def gpu_count() -> int:
    """How many GPUs torch sees; asked only by a test that needs some, as torch loads slowly."""
    import torch

    return torch.cuda.device_count()


def pytest_runtest_setup(item: pytest.Item) -> None:
    mark = item.get_closest_marker("nccl")
    if mark is None:
        return
    needed = mark.kwargs.get("gpus", 1)
    if gpu_count() < needed:
        pytest.skip(f"needs {needed} GPU(s) for NCCL; torch sees {gpu_count()} here")
