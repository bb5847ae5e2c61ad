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
    if len({op.dtype for op in ops if op.dtype}) > 1:
        return "dtype", [op.dtype for op in ops]
    if len({op.reduce_op for op in ops}) > 1:
        return "reduce op", [str(op.reduce_op) for op in ops]
    return None


def of_message(send: Op, receive: Op) -> str | None:
    """Return what differs first: ``dtype``, ``count`` of elements, or only their ``shape``."""
    if send.dtype != receive.dtype:
        return "dtype"
    if send.numel != receive.numel:
        return "count"
    return "shape" if send.shape != receive.shape else None
