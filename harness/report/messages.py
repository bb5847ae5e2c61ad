"""A picture of a run's communications: a column for each rank, a row for each call.

The two ends of a message bear the same letter, the parts of a collective its number. What never
ended is marked, and so is what was never waited for.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from harness.trace import Op, State, Trace

MOST = 40  # rows
_MARKS = {State.BLOCKED: "!", State.FAILED: "x", State.POSTED: "~", State.DROPPED: "~"}
_LEGEND = {"!": "never ended", "x": "failed", "~": "never waited for"}


def render_messages(trace: Trace, most: int = MOST) -> str:
    """Return the picture, cut to so many rows at its end, where what hangs is; "" for none."""
    ops = sorted(trace.operations(), key=lambda op: (op.posted_ns, op.rank, op.id))
    if not ops:
        return ""
    names = _names(ops)
    cells = [(op.rank, _cell(op, names.get(id(op), ""))) for op in ops]
    shown = cells[-most:]
    widths = [
        max([len(f"rank {rank}"), *(len(cell) for at, cell in shown if at == rank)])
        for rank in range(trace.world_size)
    ]
    lines = [_line([f"rank {rank}" for rank in range(trace.world_size)], widths)]
    if len(cells) > most:
        lines.append(f"… {len(cells) - most} calls before")
    for rank, cell in shown:
        lines.append(_line([cell if at == rank else "" for at in range(trace.world_size)], widths))
    used = {cell[0] for _, cell in shown}
    if legend := [f"{mark} {what}" for mark, what in _LEGEND.items() if mark in used]:
        lines.append(", ".join(legend))
    return "\n".join(lines)


def _names(ops: list[Op]) -> dict[int, str]:
    """Name the two ends of each message that met, in the order of the sends."""
    letters = _letters()
    names: dict[int, str] = {}
    for op in ops:
        if op.kind == "send" and op.match is not None:
            names[id(op)] = names[id(op.match)] = next(letters)
    return names


def _letters() -> Iterator[str]:
    for number in count():
        letter = chr(ord("a") + number % 26)
        yield letter if number < 26 else f"{letter}{number // 26}"


def _cell(op: Op, name: str) -> str:
    mark = _MARKS.get(op.state, " ")
    if op.is_collective:
        text = f"{op.api} #{op.index}"
    else:
        towards = "to" if op.kind == "send" else "from"
        text = f"{op.api} {towards} {'any' if op.peer is None else op.peer}"
        text += f", tag {op.tag}" if op.tag else ""
    action = f" {op.action}" if op.action else ""
    return f"{mark} {name + ' ' if name else ''}{text}{action} :{op.at.line}"


def _line(cells: list[str], widths: list[int]) -> str:
    return " | ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True)).rstrip(" |")
