"""Shapes that the target itself refuses, told from errors (see :mod:`harness.parity.program`)."""

from __future__ import annotations

import dis
import time
import traceback
from types import TracebackType

from harness.frames import Frames
from harness.parity.results import Raised, StepResult
from harness.trace import Frame, RankError, Status
from harness.worlds import Outcome
from pipeline.plan import PlanError

_SHAPE_CHECKS = ("pipeline.model", "pipeline.plan", "pipeline.schedules", "pipeline.lower")


class RefusedShapeError(ValueError):
    """A class of torch's, or made of torch's, cannot be made for this shape."""


def is_refusal(error: ValueError) -> bool:
    """Whether a ``raise`` of the target's own did it, or the model's and plan's checks of shapes.

    One from a builtin (``list.index``, an unpacking, ``int("x")``) is an error in the target.
    """
    if isinstance(error, RefusedShapeError):
        return True
    if isinstance(error, PlanError) or error.__traceback__ is None:
        return False
    at = error.__traceback__
    while at.tb_next is not None:
        at = at.tb_next
    module = str(at.tb_frame.f_globals.get("__name__", ""))
    if any(module == name or module.startswith(name + ".") for name in _SHAPE_CHECKS):
        return True
    return Frames().kind(at.tb_frame.f_code) is None and _is_raise_statement(at)


def is_raised(error: BaseException) -> bool:
    """Whether a ``raise`` statement did it, and no builtin."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return at is not None and _is_raise_statement(at)


def _is_raise_statement(at: TracebackType) -> bool:
    return dis.opname[at.tb_frame.f_code.co_code[at.tb_lasti]] == "RAISE_VARARGS"


def raised(error: BaseException) -> Raised:
    """Return an exception as plain values, its frames from the user's own on."""
    known = Frames()
    frames = []
    for frame, line in traceback.walk_tb(error.__traceback__):
        if known.kind(frame.f_code) is None:
            code = frame.f_code
            frames.append(Frame(code.co_filename, line, code.co_name))
    name = type(error).__name__
    shown = "".join(f"  {f.file}:{f.line} in {f.function}\n" for f in frames)
    text = f"{shown}{name}: {error}\n"
    return Raised(name, str(error), tuple(frames), text, time.monotonic_ns())


def settle(outcome: Outcome) -> str | None:
    """Return the refusal's message when every rank refused, else None.

    Where only some did, the others wait for them: each refusal becomes that rank's error.
    """
    refusals = {
        rank.rank: rank.result.refused
        for rank in outcome.ranks
        if isinstance(rank.result, StepResult) and rank.result.refused is not None
    }
    if len(refusals) == len(outcome.ranks) and refusals:
        return str(refusals[min(refusals)].message)
    for rank, refused in refusals.items():
        at = outcome.ranks[rank]
        at.result, at.finished = None, False
        at.error = RankError(
            refused.type,
            refused.message,
            refused.frames,
            refused.time_ns,
            traceback=refused.traceback,
        )
        outcome.trace.ranks[rank].status = Status.RAISED
        outcome.trace.ranks[rank].ended_ns = refused.time_ns
    return None
