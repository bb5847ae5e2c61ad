"""One rank's part in a collective, as gloo carries it out: tensors to bytes, messages, and back."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from harness.worlds.simulated import algorithms, checks
from harness.worlds.simulated.data import fold, name_of, raw, write
from harness.worlds.simulated.exchange import Algorithm, Steps, Wire, refusing


def all_reduce(tensors: Sequence[Tensor], reduce_op: object) -> Algorithm:
    """Reduce tensors of one type, laid out one after another."""
    tensors = [_real(tensor) for tensor in tensors]
    first, name = tensors[0], name_of(reduce_op)
    error = checks.while_running(first, name)
    if error is not None:
        return refusing(error)

    def run(wire: Wire) -> Steps:
        out = _joined(tensors)
        yield from algorithms.all_reduce(wire, out, fold(first, name), first.element_size())
        _spread(out, tensors)
        if name == "AVG":
            for tensor in tensors:
                tensor.data.div_(wire.size)

    return run


def reduce(tensor: Tensor, reduce_op: object, root: int) -> Algorithm:
    """Reduce onto the root; what the others are left with is gloo's scratch."""
    tensor = _real(tensor)
    name = name_of(reduce_op)
    error = checks.while_running(tensor, name)
    if error is not None:
        return refusing(error)

    def run(wire: Wire) -> Steps:
        out = raw(tensor).clone()
        yield from algorithms.reduce(wire, out, fold(tensor, name), tensor.element_size(), root)
        write(tensor, out)
        if name == "AVG":
            tensor.data.div_(wire.size)

    return run


def broadcast(tensor: Tensor, root: int) -> Algorithm:
    """Give every rank the root's bytes."""
    error = checks.while_running(tensor)
    if error is not None:
        return refusing(error)

    def run(wire: Wire) -> Steps:
        out = raw(tensor).clone()
        yield from algorithms.broadcast(wire, out, root)
        if wire.rank != root:
            write(tensor, out)

    return run


def all_gather(outputs: Sequence[Sequence[Tensor]], inputs: Sequence[Tensor]) -> Algorithm:
    """Give every rank everybody's tensors; several are laid out one after another."""
    error = checks.while_running(inputs[0])
    if error is not None:
        return refusing(error)

    def run(wire: Wire) -> Steps:
        given = _joined(inputs)
        out = given.new_empty(wire.size * given.numel())
        yield from algorithms.all_gather(wire, out, given)
        for rank in range(wire.size):
            mine = out[rank * given.numel() : (rank + 1) * given.numel()]
            _spread(mine, [held[rank] for held in outputs])

    return run


def gather(held: Sequence[Tensor], tensor: Tensor, root: int) -> Algorithm:
    """Give the root everybody's tensors."""
    error = checks.while_running(tensor)
    if error is not None:
        return refusing(error)

    def run(wire: Wire) -> Steps:
        given = raw(tensor).clone()
        out = given.new_empty(wire.size * given.numel()) if wire.rank == root else None
        yield from algorithms.gather(wire, out, given, root)
        if out is not None:
            _spread(out, held)

    return run


def scatter(target: Tensor, held: Sequence[Tensor], root: int) -> Algorithm:
    """Give each rank its tensor of the root's list."""
    error = checks.while_running(target)
    if error is not None:
        return refusing(error)

    def run(wire: Wire) -> Steps:
        out, given = raw(target).clone(), [raw(tensor).clone() for tensor in held]
        yield from algorithms.scatter(wire, out, given, root)
        write(target, out)

    return run


def reduce_scatter(target: Tensor, held: Sequence[Tensor], reduce_op: object) -> Algorithm:
    """Reduce each tensor of the lists on every rank, which takes its own; so does gloo."""

    def run(wire: Wire) -> Steps:
        for rank, tensor in enumerate(held):
            copy = tensor.detach().clone()
            yield from all_reduce([copy], reduce_op)(wire.next(rank))
            if rank == wire.rank:
                write(target, raw(copy))

    return run


def reduce_scatter_tensors(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], reduce_op: object
) -> Algorithm:
    """Reduce the whole on every rank, of which each takes its part."""

    def run(wire: Wire) -> Steps:
        for number, (target, tensor) in enumerate(zip(outputs, inputs, strict=True)):
            copy = tensor.detach().contiguous().clone()
            yield from all_reduce([copy], reduce_op)(wire.next(number))
            count = target.numel()
            mine = copy.reshape(-1)[wire.rank * count : (wire.rank + 1) * count]
            if mine.dtype is torch.bool:
                mine = mine.view(torch.uint8) != 0  # it is copied as numbers are
            write(target, raw(mine))

    return run


def all_to_all(outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> Algorithm:
    """Give each rank one tensor of each."""
    error = checks.while_running(inputs[0])
    if error is not None:
        return refusing(error)

    def run(wire: Wire) -> Steps:
        out = [raw(tensor).clone() for tensor in outputs]
        yield from algorithms.all_to_all(wire, out, [raw(tensor).clone() for tensor in inputs])
        for target, came in zip(outputs, out, strict=True):
            write(target, came)

    return run


def all_to_all_single(
    output: Tensor, given: Tensor, output_splits: Sequence[int], input_splits: Sequence[int]
) -> Algorithm:
    """Give each rank a part of one tensor of each; without splits, so many bytes each."""
    error = checks.while_running(given)
    if error is not None:
        return refusing(error)

    def run(wire: Wire) -> Steps:
        out, sent = raw(output).clone(), raw(given).clone()
        size = wire.size
        if output_splits or input_splits:
            taken = _row_bytes(output, output_splits, size)
            left = _row_bytes(given, input_splits, size)
        else:
            if sent.numel() != out.numel() or sent.numel() % size:
                raise RuntimeError("[enforce fail at alltoall.cc] in->size == out->size")
            taken = left = [sent.numel() // size] * size
        yield from algorithms.all_to_all(wire, out.split(taken), sent.split(left))
        write(output, out)

    return run


def _row_bytes(tensor: Tensor, splits: Sequence[int], size: int) -> list[int]:
    if not splits:
        if tensor.size(0) % size:
            raise RuntimeError("Tensor's dim 0 does not divide equally across group size")
        splits = [tensor.size(0) // size] * size
    elif (error := checks.splits(tensor, splits, size)) is not None:
        raise error
    row = tensor.numel() * tensor.element_size() // max(tensor.size(0), 1)
    return [count * row for count in splits]


def barrier(wire: Wire) -> Steps:
    """Wait for everybody."""
    return algorithms.barrier(wire, torch.empty(0, dtype=torch.uint8))


def _real(tensor: Tensor) -> Tensor:
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def _joined(tensors: Sequence[Tensor]) -> Tensor:
    return raw(tensors[0]).clone() if len(tensors) == 1 else torch.cat([raw(t) for t in tensors])


def _spread(out: Tensor, tensors: Sequence[Tensor]) -> None:
    """Write bytes back into the tensors that they are of, one after another."""
    start = 0
    for tensor in tensors:
        end = start + tensor.numel() * tensor.element_size()
        write(tensor, out[start:end])
        start = end
