"""What the arguments of a call to ``ProcessGroup`` say that all ranks must agree on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch._C._distributed_c10d import ReduceOp

from harness.trace import Splits


def tensors_of(value: Any) -> list[torch.Tensor]:
    """Return the tensors in a value, however deep."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, Iterable):
        return [tensor for item in value for tensor in tensors_of(item)]
    return []


def _first(args: Sequence[Any], attribute: str) -> Any:
    for arg in args:
        if hasattr(arg, attribute):
            return getattr(arg, attribute)
    return None


def reduce_op_of(kind: str, args: Sequence[Any]) -> Any:
    """Return what a call reduces by, in torch's options or as an argument; a sum by default."""
    if "reduce" not in kind:
        return None
    found = _first(args, "reduceOp")
    given = next((arg for arg in args if isinstance(arg, (ReduceOp, ReduceOp.RedOpType))), None)
    return found or given or ReduceOp.SUM


def root_of(kind: str, args: Sequence[Any]) -> Any:
    """Return a call's root, in torch's options or as an argument."""
    if kind not in ("broadcast", "reduce", "gather", "scatter"):
        return None
    found = _first(args, "rootRank")
    return found if found is not None else next((a for a in args if type(a) is int), None)


def splits_of(kind: str, args: Sequence[Any]) -> Splits:
    """Return what each rank takes from and sends to the others, where the ranks may differ."""
    if kind == "all_to_all":
        taken, sent = (tuple(tensor.numel() for tensor in tensors_of(arg)) for arg in args[:2])
        return taken, sent
    if kind == "all_to_all_single":
        given = [arg for arg in args[2:4] if isinstance(arg, (list, tuple))]
        if len(given) < 2 or not any(given):
            return any(map(bool, given))
        taken, sent = (_elements(*pair) for pair in zip(args[:2], given, strict=True))
        return (taken, sent) if taken and sent else True
    if kind == "all_gather":
        return len({tensor.numel() for tensor in tensors_of(args[0])}) > 1
    return False


def _elements(tensor: Any, rows: Sequence[int]) -> tuple[int, ...]:
    """Return how many elements so many rows of a tensor are, each time."""
    if not isinstance(tensor, torch.Tensor) or tensor.dim() == 0 or not tensor.size(0):
        return ()
    return tuple(int(count) * (tensor.numel() // tensor.size(0)) for count in rows)
