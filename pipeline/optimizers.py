"""torch's optimizers, without what makes torch import its compiler at their first use.

torch marks methods of its optimizers as not to be compiled, and does so when they are called: it
imports its compiler, which takes longer than a small run and makes a cache folder, though nothing
is compiled. What is here computes the same, bit for bit, and is not meant to be compiled.
"""

import inspect
from typing import Any

import torch
from torch.optim import SGD, Adam, Optimizer

_MARKED = ("add_param_group", "load_state_dict", "state_dict", "zero_grad")


def uncompiled(optimizer: type[Optimizer]) -> type[Optimizer]:
    """Return a subclass of one of torch's optimizers that leaves the compiler alone."""
    methods: dict[str, Any] = {name: inspect.unwrap(getattr(optimizer, name)) for name in _MARKED}
    methods["step"] = torch.no_grad()(inspect.unwrap(optimizer.step))
    return type(optimizer.__name__, (optimizer,), methods)


OPTIMIZERS: dict[str, type[Optimizer]] = {"adam": uncompiled(Adam), "sgd": uncompiled(SGD)}
