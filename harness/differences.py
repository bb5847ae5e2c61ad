"""How operations that met disagree, where they do."""

from __future__ import annotations

from collections.abc import Sequence

from harness.trace import Op

# The same collective under two names: what a backend runs for them is the same.
_FAMILY = {
    "all_gather_into_tensor": "all_gather",
    "all_gather_into_tensor_coalesced": "all_gather_coalesced",
    "all_reduce_coalesced": "all_reduce",
    "all_to_all_single": "all_to_all",
    "reduce_scatter_tensor": "reduce_scatter",
    "reduce_scatter_tensor_coalesced": "reduce_scatter",
}


def of_collective(ops: Sequence[Op]) -> tuple[str, list[str]] | None:
    """Return what differs first between the ranks' parts, and each part's value of it."""
    if len({_FAMILY.get(op.kind, op.kind) for op in ops}) > 1:
        return "kind", [op.kind for op in ops]
    if len({op.root for op in ops}) > 1:
        return "root", [f"root {op.root}" for op in ops]
    if len({op.numel for op in ops}) > 1 and not any(op.splits for op in ops):
        return "element count", [f"{op.numel} elements" for op in ops]
    if _split_apart(ops):
        return "splits", [_described(op) for op in ops]
    if len({op.dtype for op in ops if op.dtype}) > 1:
        return "dtype", [op.dtype for op in ops]
    if len({op.reduce_op for op in ops}) > 1:
        return "reduce op", [str(op.reduce_op) for op in ops]
    return None


def _split_apart(ops: Sequence[Op]) -> bool:
    """Whether one rank sends another so many elements, and that one expects another number."""
    splits = [op.splits for op in ops if isinstance(op.splits, tuple)]
    if len(splits) < len(ops) or any(len(side) != len(ops) for both in splits for side in both):
        return False  # not all have come, or not all say so
    return any(
        sent[other] != splits[other][0][rank]
        for rank, (_, sent) in enumerate(splits)
        for other in range(len(ops))
    )


def _described(op: Op) -> str:
    assert isinstance(op.splits, tuple)
    taken, sent = op.splits
    return f"sends {list(sent)} and expects {list(taken)} elements"


def of_message(send: Op, receive: Op) -> str | None:
    """Return what differs first: ``dtype``, ``count`` of elements, or only their ``shape``."""
    if send.dtype != receive.dtype:
        return "dtype"
    if send.numel != receive.numel:
        return "count"
    return "shape" if send.shape != receive.shape else None
