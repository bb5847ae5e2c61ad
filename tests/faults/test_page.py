"""An entry's page shows the whole of its programs."""

from __future__ import annotations

from pathlib import Path

from harness.faults.entry import read_entry
from harness.faults.page import program

ENTRY = '''"""A title.

Does: something.

Wrong: somehow.

Shows: somewhere.

Instead: something else.
"""

LABEL = {
    "class": "mine",
    "scope": "step",
    "source": "ours",
    "world": 1,
    "chunks": 1,
    "code": "init-mismatch",
}


def built(index, count, layers, width):
    return index


def faulty(stage, comms, batch, chunks):
    return None


faulty.build_stage = built
faulty.promises = "1f1b"


def correct(stage, comms, batch, chunks):
    return 1
'''


def test_a_program_is_shown_with_what_its_attributes_name(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(ENTRY)
    entry = read_entry(file)
    shown = program(entry, "faulty")
    for part in ("def built", "def faulty", "faulty.build_stage = built", "promises"):
        assert part in shown
    assert "def correct" not in shown
    assert program(entry, "correct") == "def correct(stage, comms, batch, chunks):\n    return 1"
