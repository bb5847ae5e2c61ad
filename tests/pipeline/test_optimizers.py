"""The optimizers compute what torch's do, and leave torch's compiler alone."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn

from pipeline.optimizers import OPTIMIZERS

THEIRS = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}


def trained(optimizer: type[torch.optim.Optimizer]) -> tuple[list[Tensor], list[Tensor]]:
    generator = torch.Generator().manual_seed(3)
    parameters = [nn.Parameter(torch.randn(5, 3, generator=generator)) for _ in range(3)]
    steps = optimizer(parameters[:2], lr=0.1)  # type: ignore[call-arg]
    steps.add_param_group({"params": parameters[2:], "lr": 0.01})
    for _ in range(3):
        steps.zero_grad()
        sum((p**3).sum() for p in parameters).backward()  # type: ignore[union-attr]
        assert steps.step() is None
    assert all(p.grad is not None and p.requires_grad for p in parameters)
    steps.load_state_dict(steps.state_dict())
    kept = [
        value if isinstance(value, Tensor) else torch.tensor(float(value or 0))
        for state in steps.state.values()
        for value in state.values()
    ]
    return [p.detach() for p in parameters], kept


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_they_come_to_the_same_bits_as_torch_s(name: str) -> None:
    (ours, our_state), (theirs, their_state) = trained(OPTIMIZERS[name]), trained(THEIRS[name])
    assert all(map(torch.equal, ours, theirs))
    assert len(our_state) == len(their_state)
    assert all(map(torch.equal, our_state, their_state))
    assert issubclass(OPTIMIZERS[name], THEIRS[name])


def test_torch_s_compiler_is_not_imported() -> None:
    program = (
        "import sys; from pipeline.model import Workload, train_monolith; "
        "workloads = [Workload.conditioned(optimizer=name) for name in ('adam', 'sgd')]; "
        "[list(train_monolith(workload, 2)) for workload in workloads]; "
        "print('torch._dynamo' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=True
    )
    assert done.stdout == "False\n"
