"""Where in the random numbers of a seed a layer's first values come from.

PyTorch's initialisation of a linear layer takes one number of the generator for each value, the
weight's and then the bias's. So the values tell which numbers they were made of: those meant for
another layer, some numbers further on, or those of another seed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from harness.parity.reference import initial
from pipeline.model import Workload

BEYOND = 4096  # how many numbers are looked through after those that the whole model takes
ENOUGH = 4  # values that are found in a row by chance with fewer
PRECISE, MANY = 1e-4, 12  # of coarser numbers so many are needed

SLICE = (
    "build the whole seeded model on every rank and keep a slice; skipping ahead in the random "
    "state needs exactly what each layer's init consumed"
)
_IN_ORDER = (
    "build the whole seeded model on every rank, in the monolith's order, and give each stage "
    "consecutive layers of it: a stage that builds its own layers only begins at layer 0's numbers"
)
_ONE_SEED = (
    "seed all ranks alike until the parameters are drawn; what is to differ between ranks needs a "
    "generator of its own"
)


@dataclass(frozen=True, slots=True)
class Origin:
    """What a layer was drawn from, in words, what to do, and for the report's details."""

    told: str
    help: str
    details: dict[str, Any] = field(default_factory=dict)


def origin_of(weight: Tensor, workload: Workload, expected: int, world: int) -> Origin | None:
    """Find where a weight (out, in) was drawn; None where that cannot be shown.

    ``expected`` is how many numbers the monolith takes before it. Other seeds are tried as far as
    ranks could have moved them.
    """
    coarse = torch.finfo(weight.dtype).eps > PRECISE
    if weight.numel() < (MANY if coarse else ENOUGH):
        return None
    starts = _starts(workload)
    for seed in _seeds(workload.seed, world):
        got = _found(weight, seed, starts[-1] + BEYOND)
        if got is None:
            continue
        draws = {"expected": expected, "got": got}
        if seed != workload.seed:
            same = got == expected
            after = "" if same else f", after {got} numbers and not {expected}"
            told = f"which was drawn with the seed {seed}, not {workload.seed}{after}"
            details: dict[str, Any] = {"drawn_with_seed": seed}
            return Origin(told, _ONE_SEED, details if same else details | {"draws": draws})
        if got in starts[:-1]:
            layer = starts.index(got)
            told = f"which has what is drawn for layer {layer}, not {starts.index(expected)}"
            return Origin(told, _IN_ORDER, {"drawn_for_layer": layer, "draws": draws})
        told = f"which was drawn after {got} random numbers; the monolith's is after {expected}"
        return Origin(told, SLICE, {"draws": draws})
    return None


def _starts(workload: Workload) -> list[int]:
    """Return how many numbers the monolith takes before each layer, and for all of them."""
    parameters = initial(workload).parameters
    sizes = [parameter.numel() for parameter in parameters]
    layers = [w + b for w, b in zip(sizes[::2], sizes[1::2], strict=True)]
    return [0, *accumulate(layers)]


def _seeds(seed: int, world: int) -> Iterator[int]:
    yield seed
    for apart in range(1, world + 1):
        yield seed + apart
        if seed >= apart:
            yield seed - apart


def _found(weight: Tensor, seed: int, length: int) -> int | None:
    """Return after how many of a seed's numbers the weight was drawn."""
    bound = 1 / math.sqrt(weight.shape[1])
    numbers = torch.rand(length, generator=torch.Generator().manual_seed(seed))
    values = (numbers.double() * 2 - 1) * bound
    wanted = weight.reshape(-1).double()
    rounding = max(torch.finfo(weight.dtype).eps, torch.finfo(torch.float32).eps)
    allowed = 4 * rounding * bound
    last = length - len(wanted)
    places = ((values[: last + 1] - wanted[0]).abs() <= allowed).nonzero().reshape(-1).tolist()
    for place in places:
        if bool(((values[place : place + len(wanted)] - wanted).abs() <= allowed).all()):
            return int(place)
    return None
