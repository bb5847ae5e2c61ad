"""Which source files are ours, and which of those are run and judged as a user's would be."""

from __future__ import annotations

import os
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
HARNESS = str(_PACKAGE) + os.sep
PIPELINE = str(_PACKAGE.parent / "pipeline") + os.sep
PROGRAMS = (str(_PACKAGE / "faults" / "entries") + os.sep,)
"""Folders of programs that we ship: whatever is in them is a user's code."""


def is_program(file: str) -> bool:
    """Whether a file is one of the programs that we ship."""
    return file.startswith(PROGRAMS)


def is_own(file: str) -> bool:
    """Whether a file is ours, of either package, and none of those programs."""
    return file.startswith((HARNESS, PIPELINE)) and not file.startswith(PROGRAMS)
