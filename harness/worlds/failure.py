"""What an exception that left a rank was, told from the user's own frame on."""

from __future__ import annotations

import traceback
from pathlib import Path

from harness.checkers.dragged import is_refusal_of_arguments
from harness.frames import Frames
from harness.recorder import WAITED
from harness.trace import Frame, RankError

_PIPELINE = f"{Path(__file__).resolve().parents[2] / 'pipeline'}/"
_COMMS = f"{_PIPELINE}comms.py"


def describe(error: BaseException, frames: Frames, time_ns: int) -> RankError:
    """Return what left the rank at that time of the trace."""
    stack = list(traceback.walk_tb(error.__traceback__))
    summary = traceback.StackSummary.extract(iter(stack))
    kinds = [frames.kind(frame.f_code) for frame, _ in stack]
    own = [line for line, kind in zip(summary, kinds, strict=True) if kind is None]
    last = stack[-1][0].f_code.co_filename if stack else ""
    in_comm = "c10d" in kinds or last == _COMMS
    waited = getattr(error, WAITED, False)
    if isinstance(error, SyntaxError):  # its line is the user's, though no frame of it is
        own = own or [
            traceback.FrameSummary(str(error.filename), error.lineno or 0, "<module>", line="")
        ]
    shown = own or [line for line in summary if line.filename.startswith(_PIPELINE)]
    text = "".join(traceback.format_list(own) + traceback.format_exception_only(error))
    return RankError(
        type=type(error).__name__,
        message=_message(error),
        frames=tuple(Frame(f.filename, f.lineno or 0, f.name, f.line or "") for f in shown),
        time_ns=time_ns,
        in_comm=in_comm or waited,
        refused=in_comm and is_refusal_of_arguments(error, waited=waited),
        traceback=text,
    )


def _message(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"exited with status {error.code}"
    try:
        lines = str(error).strip().splitlines()
    except Exception:
        lines = ["its text cannot be printed"]
    return lines[0] if lines else ""
