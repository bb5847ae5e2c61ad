"""What the optimizer makes of the gradients that the ranks really had."""

from __future__ import annotations

import math
from collections.abc import Collection
from itertools import islice

import torch
from torch import Tensor, nn

from harness.parity import bounds
from harness.parity.reference import one_thread
from harness.parity.results import Chain
from harness.warm import warm_torch
from pipeline.model import Training, Workload
from pipeline.own_model import OwnWorkload


class Shadow:
    """The ranks' parameters and optimizer state, updated beside them step by step."""

    def __init__(self, workload: Training, values: Tensor, chain: Chain) -> None:
        self._parameters: list[nn.Parameter] = []
        ranks: dict[int, list[nn.Parameter]] = {}
        shapes = [shape for stage in chain for _, shape in stage.layout]
        self._sizes = [math.prod(shape) for shape in shapes]
        parts = iter(zip(values.split(self._sizes), shapes, strict=True))
        for stage in chain:
            held = ranks.setdefault(stage.rank, [])
            for part, shape in islice(parts, len(stage.layout)):
                held.append(nn.Parameter(part.clone().view(shape)))
            self._parameters += held[len(held) - len(stage.layout) :]
        if isinstance(workload, Workload):  # elementwise: all at once comes to the same
            ranks = {0: self._parameters}
        elif isinstance(workload, OwnWorkload) and workload.parts.optimizer is not None:
            warm_torch()
        self._optimizers = [workload.optimizer_for(held) for held in ranks.values() if held]
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
        sizes = self._sizes
        parts = gradient.split(sizes)
        for place, (parameter, part) in enumerate(zip(self._parameters, parts, strict=True)):
            parameter.grad = None if place in absent else part.clone().view_as(parameter)
        with one_thread():
            for optimizer in self._optimizers:
                optimizer.step()
        expected = torch.cat([p.detach().reshape(-1) for p in self._parameters])
        scale = torch.maximum(bounds.largest(expected, sizes), bounds.largest(after, sizes))
        error = bounds.relative(expected.double() - after.double(), scale, sizes)
        same_nan = torch.isnan(expected) == torch.isnan(after)
        if bool(same_nan.all()) and not bool(torch.isfinite(expected).all()):
            error = torch.nan_to_num(error, nan=0.0)
        with torch.no_grad():
            for parameter, part in zip(self._parameters, after.split(sizes), strict=True):
                parameter.copy_(part.view_as(parameter))
        return error
