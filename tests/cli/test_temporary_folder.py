"""A command leaves nothing in the temporary folder, though torch's compiler is imported in it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.torch_versions import since

ROOT = Path(__file__).parents[2]


@since("2.9", "makes a folder of its own for what it generates")
@pytest.mark.gloo
@pytest.mark.parametrize(
    "target", ["tests/torch_targets/schedules.py:Mine", "examples/megatron_like.py:step"]
)
def test_a_check_leaves_nothing(target: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "harness", "check", target, "--cases", "2", "-q"],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []
