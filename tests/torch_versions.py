"""What a test needs of the version of torch that it runs on.

The tests are written for the pinned one. What an older or newer one does otherwise is said where it
is left out, so that ``ci/with-torch`` passes on the versions of the range and lists what they lack.
"""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

import pytest

TORCH = tuple(int(part) for part in re.findall(r"\d+", version("torch"))[:2])
PINNED = re.search(
    r"^torch==(\S+)$", (Path(__file__).parent.parent / "ci" / "constraints.txt").read_text(), re.M
)


def before(release: str) -> bool:
    """Whether torch is older than that release: ``before("2.9")``."""
    return tuple(map(int, release.split("."))) > TORCH


def since(release: str, older: str) -> pytest.MarkDecorator:
    """Leave a test out on torch before a release; ``older`` says what an older one does."""
    return pytest.mark.skipif(before(release), reason=f"torch {version('torch')} {older}")


def until(release: str, newer: str) -> pytest.MarkDecorator:
    """Leave a test out on torch from a release on; ``newer`` says what a newer one does."""
    return pytest.mark.skipif(not before(release), reason=f"torch {version('torch')} {newer}")


def is_pinned() -> bool:
    """Whether torch is the version that the dependencies are pinned for."""
    return PINNED is not None and version("torch").partition("+")[0] == PINNED[1]
