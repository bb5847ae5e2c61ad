"""The recorder of the rank that runs here, for whatever stands around torch's calls."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.recorder import Recorder

WAITED = "__harness_waited__"  # marks an exception that ended a wait


def mark_waited(error: BaseException) -> None:
    """Mark an exception as the end of a wait: it refuses no argument."""
    with contextlib.suppress(AttributeError):
        setattr(error, WAITED, True)


_active: Recorder | None = None


def active() -> Recorder | None:
    """Return the recorder of the rank that runs here, None outside a run."""
    return _active


def activate(recorder: Recorder | None) -> None:
    """Make ``recorder`` the one that :mod:`harness.instrument` writes to; None for none."""
    global _active
    _active = recorder


def _forked() -> None:
    if _active is not None:
        _active.silence()
        activate(None)


os.register_at_fork(after_in_child=_forked)
