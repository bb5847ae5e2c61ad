"""What gloo refuses before it communicates, in its own words where a program may read them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

# The types that gloo's collectives take; messages are bytes, and of any type.
TYPES = frozenset(
    {
        torch.float64,
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int8,
        torch.uint8,
        torch.bool,
    }
)
_INTEGRAL = frozenset({torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool})
_BITWISE = frozenset({"BAND", "BOR", "BXOR"})


def refuse(name: str, what: str) -> RuntimeError:
    """Return what gloo raises for an argument of a collective that it does not take."""
    return RuntimeError(f"ProcessGroupGloo::{name}: {what}")


def alike(name: str, tensors: Sequence[Tensor], like: Tensor) -> None:
    """Check that all have the type and the shape of ``like``."""
    for index, tensor in enumerate(tensors):
        if tensor.dtype is not like.dtype:
            what = f"(expected {like.dtype}, got {tensor.dtype})"
            raise refuse(name, f"invalid tensor type at index {index} {what}")
        if tensor.shape != like.shape:
            what = f"(expected {_shape(like)}, got {_shape(tensor)})"
            raise refuse(name, f"invalid tensor size at index {index} {what}")


def _shape(tensor: Tensor) -> str:
    return f"({', '.join(map(str, tensor.shape))})"


def root(name: str, given: int, size: int) -> None:
    """Check that the root is a rank of the group."""
    if not 0 <= given < size:
        raise refuse(name, f"invalid root rank: {given}")


def gather_list(outputs: Sequence[Sequence[Tensor]], given: Tensor, size: int) -> None:
    """Check the root's list of a gather."""
    if len(outputs) != 1:
        raise refuse(
            "gather", f"requires a single-element output list containing a list with {size} tensors"
        )
    if len(outputs[0]) != size:
        what = f"Output list size should be {size}, same as size of the process group."
        raise refuse("gather", f"Incorrect output list size {len(outputs[0])}. {what}")
    alike("gather", outputs[0], given)


def scatter_list(inputs: Sequence[Sequence[Tensor]], target: Tensor, size: int) -> None:
    """Check the root's list of a scatter."""
    if len(inputs) != 1:
        raise refuse(
            "scatter", f"requires a single-element input list containing a list with {size} tensors"
        )
    if len(inputs[0]) != size:
        what = f"Input list size should be {size}, same as size of the process group."
        raise refuse("scatter", f"Incorrect input list size {len(inputs[0])}. {what}")
    alike("scatter", inputs[0], target)


def gathered(outputs: Sequence[Tensor], given: Tensor, size: int, index: int = 0) -> None:
    """Check the output list of an all_gather."""
    if len(outputs) != size:
        what = f"(expected length {size}, got {len(outputs)})"
        raise refuse("allgather", f"invalid output tensor list at index {index} {what}")
    alike("allgather", outputs, given)


def reduce_scattered(output: Tensor, given: Tensor, size: int) -> None:
    """Check the tensors of a reduce_scatter_tensor."""
    if output.dtype is not given.dtype:
        raise RuntimeError(
            "Check failed: outputTensors[i].dtype() == inputTensors[i].dtype() "
            f"({output.dtype} vs. {given.dtype}). "
        )
    mine, whole = output.shape[:1].numel() * size, given.shape[:1].numel()
    if mine != whole:
        raise RuntimeError(
            f"Check failed: outputShape[0] * worldSize == inputShape[0] ({mine} vs. {whole}). "
        )


def reduce_scatter_list(output: Tensor, given: Sequence[Tensor], size: int) -> None:
    """Check the list of a reduce_scatter; gloo looks at its first tensor only."""
    if len(given) != size:
        raise RuntimeError("invalid input tensor list size, must be world size")
    if output.shape != given[0].shape:
        raise RuntimeError(
            "Check failed: outputs[0].sizes().vec() == inputs[0][i].sizes().vec() "
            f"({_shape(output)} vs. {_shape(given[0])}). "
        )


def all_to_all_lists(outputs: Sequence[Tensor], inputs: Sequence[Tensor], size: int) -> None:
    """Check both lists of an all_to_all."""
    for what, tensors in (("input", inputs), ("output", outputs)):
        if len(tensors) != size:
            raise refuse(
                "alltoall",
                f"{what} tensor list size {len(tensors)} does not match world size {size}",
            )
    for tensors in (inputs, outputs):
        alike("alltoall", tensors, inputs[0])


def while_running(tensor: Tensor, operation: str | None = None) -> Exception | None:
    """Return what gloo raises only when it carries the collective out: at the wait."""
    if tensor.dtype not in TYPES:
        return RuntimeError("Invalid scalar type")
    if operation == "PREMUL_SUM":
        return RuntimeError("Cannot use ReduceOp.PREMUL_SUM with Gloo")
    if operation in _BITWISE and tensor.dtype not in _INTEGRAL:
        return RuntimeError(f"Cannot use ReduceOp.{operation} with non-integral dtype")
    return None


def alike_if_simple(tensors: Sequence[Tensor], reduce_op: object = None) -> object:
    """Return what all ranks must have alike for a collective to be plain; None if it never is.

    Plain is one tensor, contiguous and not empty, of numbers that gloo takes.
    """
    (first, *more), name = tensors, str(getattr(getattr(reduce_op, "op", reduce_op), "name", ""))
    if (
        more
        or not first.numel()
        or not first.is_contiguous()
        or first.dtype not in TYPES - {torch.bool}
    ):
        return None
    if while_running(first, name) is not None or (name == "AVG" and first.dtype in _INTEGRAL):
        return None
    return first.dtype, first.numel(), name


def splits(tensor: Tensor, given: Sequence[int], size: int) -> Exception | None:
    """Return what gloo raises at the wait for the splits of an all_to_all_single."""
    if len(given) != size:
        return RuntimeError("Number of tensor splits not equal to group size")
    if sum(given) != tensor.size(0):
        return RuntimeError("Split sizes doesn't match total dim 0 size")
    return None
