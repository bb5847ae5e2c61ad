"""Where a layer's first values were drawn is told by the values alone."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from harness.parity.draws import Origin, origin_of
from harness.parity.reference import initial
from pipeline.model import Workload

WIDTH = 4
EACH = WIDTH * WIDTH + WIDTH  # numbers that a layer takes
WORKLOADS = [
    Workload(layers=3, width=WIDTH, batch=4, dtype=dtype, seed=7)
    for dtype in (torch.float32, torch.float64, torch.bfloat16)
]


def drawn(seed: int, skipped: int) -> torch.Tensor:
    """Draw a layer's weight after so many numbers of a seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for _ in range(skipped):
            torch.rand(1)
        return nn.Linear(WIDTH, WIDTH).weight.detach()


def told(weight: torch.Tensor, workload: Workload, layer: int = 1) -> Origin | None:
    return origin_of(weight.to(workload.dtype), workload, layer * EACH, world=2)


def test_the_monolith_draws_as_these_tests_do() -> None:
    parameters = initial(WORKLOADS[0]).parameters
    assert torch.equal(parameters[2], drawn(7, EACH))


@pytest.mark.parametrize("workload", WORKLOADS)
def test_another_layers_draws_are_named(workload: Workload) -> None:
    origin = told(drawn(7, 2 * EACH), workload)
    assert origin is not None
    assert origin.told == "which has what is drawn for layer 2, not 1"
    assert origin.details["drawn_for_layer"] == 2


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_state_skipped_by_count_is_told_by_how_far(workload: Workload) -> None:
    origin = told(drawn(7, 2), workload)
    assert origin is not None
    assert "after 2 random numbers" in origin.told
    assert origin.details == {"draws": {"expected": EACH, "got": 2}}


@pytest.mark.parametrize("seed", [6, 8, 9])
def test_another_seed_near_by_is_named(seed: int) -> None:
    origin = told(drawn(seed, EACH), WORKLOADS[1])
    assert origin is not None
    assert origin.details == {"drawn_with_seed": seed}
    moved = told(drawn(seed, 3), WORKLOADS[1])
    assert moved is not None
    assert moved.details == {"drawn_with_seed": seed, "draws": {"expected": EACH, "got": 3}}


@pytest.mark.parametrize("workload", WORKLOADS)
def test_values_of_another_kind_are_not_explained(workload: Workload) -> None:
    torch.manual_seed(3)
    assert told(torch.randn(WIDTH, WIDTH), workload) is None
    assert told(torch.zeros(WIDTH, WIDTH), workload) is None
    assert told(torch.full((1, 2), 0.5), workload) is None
    assert told(drawn(70, EACH), workload) is None
