"""A rank's random state is all of it, and copied where it lies wherever that can be told."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from harness.worlds.simulated import randomness


def draws_of_torch() -> list[float]:
    single = torch.randn(1, dtype=torch.float64)  # the second of its pair is kept back
    return [*single.tolist(), *torch.rand(700).tolist(), *torch.randn(40).tolist()]


def draws_of_python() -> list[float]:
    return [random.gauss(0, 1), *(random.random() for _ in range(700))]


@pytest.fixture(params=["where it lies", "by its functions"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    if request.param == "by its functions":
        monkeypatch.setattr(randomness, "_words", None)
        monkeypatch.setattr(randomness, "_torchs", None)
    with torch.random.fork_rng(devices=[]):
        before = random.getstate()
        yield request.param
        random.setstate(before)


def test_this_python_and_this_torch_have_the_usual_layouts() -> None:
    assert randomness._words is not None
    assert randomness._torchs is not None


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    ("save", "restore", "draws"),
    [
        (randomness.save, randomness.restore, draws_of_python),
        (randomness.save_torchs, randomness.restore_torchs, draws_of_torch),
    ],
    ids=["python", "torch"],
)
@pytest.mark.parametrize("seed", range(5))
def test_what_is_drawn_goes_on_where_it_was(
    save: Callable[[], Any], restore: Callable[[Any], None], draws: Callable[[], Any], seed: int
) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    draws()
    draws()
    saved, states = save(), (torch.get_rng_state(), random.getstate())
    expected = draws()
    torch.manual_seed(99)
    random.seed(99)
    draws()
    restore(saved)
    if draws is draws_of_torch:
        assert torch.equal(torch.get_rng_state(), states[0])
        assert torch.initial_seed() == seed
    else:
        assert random.getstate() == states[1]
    assert draws() == expected


def test_a_generator_of_numpy_that_is_used_again_begins_anew() -> None:
    functions: Any = np.random
    before = functions.get_bit_generator()
    try:
        first = randomness.Numpy(np, 3)
        numbers = [np.random.normal(), *np.random.rand(700)]  # one of a pair is kept back
        again = randomness.Numpy(np, 3, first.bits)
        assert again.bits is first.bits
        assert [np.random.normal(), *np.random.rand(700)] == numbers
    finally:
        functions.set_bit_generator(before)
