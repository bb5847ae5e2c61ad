"""A backward in two parts is bitwise the whole, and gives the weights nothing before the second."""

from __future__ import annotations

import copy
import gc
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pipeline.split_backward import split_backward

WIDTH = 4


class Tied(nn.Module):
    """Uses one weight twice, once below and once above what is its own."""

    def __init__(self) -> None:
        super().__init__()
        self.shared, self.own = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.shared(torch.tanh(self.own(self.shared(x))))  # type: ignore[no-any-return]


class Hooked(nn.Module):
    """Changes the gradient of what lies between, and of what comes out."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        y.register_hook(lambda gradient: gradient * 0.5)
        z: Tensor = self.second(y)
        z.register_hook(lambda gradient: gradient * 3)
        return z


class Beside(nn.Module):
    """Has weights that meet the input's path only through others, and one that is not used."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.unused = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.ones(1))
        self.gate = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        first, *rest = x.chunk(2)
        return torch.cat([first * torch.exp(self.scale), *rest]) * torch.sigmoid(self.gate(x))


def frozen() -> nn.Module:
    module = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))
    module[0].weight.requires_grad_(False)
    return module


MODULES = {
    "layers": nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3)),
    "tied": Tied(),
    "hooked": Hooked(),
    "beside": Beside(),
    "frozen": frozen(),
    "normed": nn.Sequential(
        nn.LayerNorm(WIDTH), nn.utils.parametrizations.weight_norm(nn.Linear(WIDTH, WIDTH))
    ),
    "attention": nn.TransformerEncoderLayer(WIDTH, 2, 8, dropout=0.0),
    "inplace": nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(inplace=True)),
    "nothing to train": nn.Sequential(nn.Tanh()),
}


def gradients(module: nn.Module) -> list[Tensor | None]:
    return [None if p.grad is None else p.grad.clone() for p in module.parameters()]


def same(one: list[Tensor | None], other: list[Tensor | None]) -> bool:
    return all(
        a is b if a is None or b is None else torch.equal(a, b)
        for a, b in zip(one, other, strict=True)
    )


@pytest.mark.parametrize("name", MODULES)
def test_both_parts_together_are_the_whole(name: str) -> None:
    torch.manual_seed(1)
    module = copy.deepcopy(MODULES[name])
    x = torch.randn(6, WIDTH)
    for _ in range(2):  # gradients add up
        whole = x.clone().requires_grad_()
        y = module(whole)
        gradient = torch.randn_like(y)
        torch.autograd.backward(y, gradient)
    expected = gradients(module)
    module.zero_grad()
    torch.manual_seed(1)
    torch.randn(6, WIDTH)
    for _ in range(2):
        cut = x.clone().requires_grad_()
        y = module(cut)
        gradient = torch.randn_like(y)
        before = gradients(module)
        of_input, later = split_backward(y, gradient, cut)
        assert same(gradients(module), before), "the weights come later"
        assert cut.grad is None
        later()
    assert of_input is not None
    assert whole.grad is not None
    assert torch.equal(of_input, whole.grad)
    assert same(gradients(module), expected)


def test_hooks_of_parameters_run_once() -> None:
    module, seen = nn.Linear(WIDTH, WIDTH), []
    module.weight.register_post_accumulate_grad_hook(lambda p: seen.append(p))
    x = torch.randn(2, WIDTH, requires_grad=True)
    _, later = split_backward(module(x).sum(), None, x)
    assert seen == []
    later()
    assert len(seen) == 1


def test_a_stage_that_hands_its_input_on_hands_its_gradient_back() -> None:
    x, gradient = torch.ones(2, requires_grad=True), torch.ones(2)
    of_input, later = split_backward(x, gradient, x)
    later()
    assert of_input is gradient


@pytest.mark.parametrize("has_input", [True, False])
def test_without_a_way_to_the_input_all_comes_later(*, has_input: bool) -> None:
    weight = torch.ones(2, requires_grad=True)
    x = torch.ones(2, requires_grad=True) if has_input else None
    of_input, later = split_backward((weight * 3).sum(), None, x)
    assert of_input is None
    before = weight.grad
    later()
    assert before is None
    assert weight.grad is not None
    assert weight.grad.tolist() == [3, 3]


def test_what_a_function_of_the_user_s_calls_variable_is_no_leaf() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.variable = torch.ones(2, requires_grad=True)
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return gradient * 2

    x, layer = torch.randn(2, WIDTH, requires_grad=True), nn.Linear(WIDTH, WIDTH)
    y: Tensor = Double.apply(layer(x))  # type: ignore[no-untyped-call]
    of_input, later = split_backward(y.sum(), None, x)
    later()
    assert of_input is not None
    assert layer.weight.grad is not None


def test_nothing_is_kept_once_the_weights_have_their_part() -> None:
    layer = nn.Linear(WIDTH, WIDTH)
    x = torch.randn(2, WIDTH, requires_grad=True)
    y = torch.tanh(layer(x))
    kept = weakref.ref(y)
    _, later = split_backward(y, torch.ones_like(y), x)
    later()
    del y, later
    gc.collect()
    assert kept() is None
