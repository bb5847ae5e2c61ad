"""What messages and collectives do to tensors, as gloo does it."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from harness.worlds.simulated.algorithms import Segments


class Inputs(dict[int, list[Tensor]]):
    """Global rank → what it put in; ``results`` keeps what is the same for all."""

    def __init__(self, given: dict[int, list[Tensor]]) -> None:
        super().__init__(given)
        self.results: dict[object, Tensor] = {}


class SizesDifferError(Exception):
    """The ranks' parts have different sizes: gloo aborts the process in which it notices."""


@dataclass(slots=True)
class Message:
    """The tensor of a send or of a receive."""

    tensor: Tensor
    checksum: int | None = None  # of a guarded run: what the program must leave as it is
    before: Tensor | None = None  # what a buffer held, where its message was there already

    def watch(self) -> None:
        """Remember the bytes as they are now."""
        self.checksum = _checksum(self.tensor)

    @property
    def has_changed(self) -> bool:
        """Whether somebody wrote there since, by whatever way."""
        return self.checksum is not None and self.checksum != _checksum(self.tensor)

    def keep(self) -> None:
        """Put the data aside: the program may change its tensor now."""
        self.tensor = self.tensor.detach().clone()

    def restore(self) -> None:
        """Undo the delivery."""
        if self.before is not None:
            self.tensor.data.copy_(self.before)


@dataclass(slots=True)
class Part:
    """One rank's part in a collective: what it puts in, and what it does with what came."""

    inputs: list[Tensor]
    finish: Callable[[Inputs], None]
    size: int = 0  # elements that all ranks must agree on; 0: nothing to agree on
    slot: str = ""  # of the algorithm that carries it out
    algorithm: Any = None
    alike: Any = None  # where all ranks have this alike, ``finish`` does what the algorithm does
    tags: int = 1  # how many numbers of the group's collectives it uses up
    kept: list[Tensor] = field(default_factory=list)

    def keep(self) -> None:
        """Put the inputs aside: the program may change its tensors now."""
        self.kept = [tensor.detach().clone() for tensor in self.inputs]


def deliver(sent: Tensor, received: Tensor) -> None:
    """Move a message's bytes into the buffer of its receive, whatever either's shape and type is.

    A larger buffer is filled in part. SizesDifferError for one that is too small. The buffer's
    modification counter stays: a backend writes below it.
    """
    sent, received = sent.detach(), received.data
    if sent.dtype == received.dtype and sent.numel() == received.numel():
        received.copy_(sent.view(received.shape) if sent.shape != received.shape else sent)
        return
    source, target = raw(sent), raw(received)
    if source.numel() > target.numel():
        raise SizesDifferError
    target[: source.numel()].copy_(source)


def _checksum(tensor: Tensor) -> int:
    stored: Any = raw(tensor.data).numpy()
    return zlib.crc32(stored)


def raw(tensor: Tensor) -> Tensor:
    """Return a tensor's bytes: the same memory where it is contiguous."""
    flat = tensor.detach().reshape(-1)
    return flat if flat.dtype is torch.uint8 else flat.view(torch.uint8)


def write(target: Tensor, source: Tensor) -> None:
    """Write a collective's result, in bytes, into a rank's tensor; its counter stays."""
    if target.is_contiguous():
        raw(target.data).copy_(source)
    else:
        target.data.copy_(source.clone().view(target.dtype).view(target.shape))


def put(target: Tensor, source: Tensor) -> None:
    """Write one tensor into another, as a collective that is not looked into does."""
    deliver(source.contiguous(), target)


Fold = Callable[[Tensor, Tensor], None]


def fold(like: Tensor, name: str) -> Fold:
    """Return what reduces bytes that came into a rank's own, as numbers of the type of ``like``.

    A bool is a byte to gloo, and a number that is none loses every comparison.
    """
    dtype = torch.uint8 if like.dtype is torch.bool else like.dtype
    function = _OURS.get(name)

    def into(mine: Tensor, came: Tensor) -> None:
        ours, theirs = mine.view(dtype), came.view(dtype)
        if function is not None:
            function(ours, theirs, out=ours)
        else:
            less = theirs < ours if name == "MIN" else ours < theirs
            ours.copy_(torch.where(less, theirs, ours))

    return into


_OURS: dict[str, Any] = {
    "SUM": torch.add,
    "AVG": torch.add,
    "PREMUL_SUM": torch.add,
    "PRODUCT": torch.mul,
    "BAND": torch.bitwise_and,
    "BOR": torch.bitwise_or,
    "BXOR": torch.bitwise_xor,
}


def reduced(tensors: Sequence[Tensor], reduce_op: Any) -> Tensor:
    """Return tensors of one type and size reduced, in the order of gloo's ring."""
    name, first = name_of(reduce_op), tensors[0]
    into, cut = (
        fold(first, name),
        Segments(first.numel() * first.element_size(), len(tensors), first.element_size()),
    )
    given = [raw(tensor) for tensor in tensors]
    result = torch.empty_like(first, memory_format=torch.contiguous_format)
    out = raw(result)
    for rank in range(len(tensors)):  # whose chunk has begun one rank before, going down
        chunk = cut.chunk(rank)
        if chunk.start == chunk.stop:
            continue
        total = given[rank - 1][chunk].clone()
        for step in range(2, len(tensors) + 1):
            mine = given[rank - step][chunk].clone()
            into(mine, total)
            total = mine
        out[chunk] = total
    if name == "AVG":
        result = torch.div(result, len(tensors), rounding_mode=None).to(result.dtype)
    return result


def name_of(reduce_op: Any) -> str:
    """Return the name of a reduce operation: ``SUM``, ``MAX`` and so on."""
    return str(getattr(reduce_op, "op", reduce_op).name)
