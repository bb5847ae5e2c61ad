"""What the optimizer makes of the gradients that the ranks really had."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor

from harness.parity import bounds
from harness.parity.reference import gradient_only, initial, one_thread
from harness.warm import warm_torch
from pipeline.model import Workload, make_optimizer


class Shadow:
    """The ranks' parameters and optimizer state, updated beside them step by step."""

    def __init__(self, workload: Workload, values: Tensor) -> None:
        self._reference = initial(gradient_only(workload)).at(values)
        self._parameters = self._reference.parameters
        warm_torch()
        self._optimizer = make_optimizer(workload, self._parameters)
        # The same elementwise operations on the same values: bitwise the same here, a few roundings
        # apart on another device; below float32 kernels compute in float32 and round once.
        precision = torch.finfo(workload.dtype)
        allowed = precision.eps * (1 if precision.bits < 32 else 16)
        self.bound = torch.full((len(self._parameters),), allowed, dtype=torch.float64)

    def advance(self, gradient: Tensor, absent: Collection[int], after: Tensor) -> Tensor:
        """Make a step; return each parameter's largest error in ``after``, then take that over.

        ``gradient`` and ``after`` are (values,); parameters in ``absent`` have no gradient.
        Errors are relative to each parameter's largest value.
        """
        sizes = self._reference.sizes
        parts = gradient.split(sizes)
        for place, (parameter, part) in enumerate(zip(self._parameters, parts, strict=True)):
            parameter.grad = None if place in absent else part.clone().view_as(parameter)
        with one_thread():
            self._optimizer.step()
        expected = self._reference.values()
        scale = torch.maximum(bounds.largest(expected, sizes), bounds.largest(after, sizes))
        error = bounds.relative(expected.double() - after.double(), scale, sizes)
        same_nan = torch.isnan(expected) == torch.isnan(after)
        if bool(same_nan.all()) and not bool(torch.isfinite(expected).all()):
            error = torch.nan_to_num(error, nan=0.0)
        self._reference.set(after)
        return error
