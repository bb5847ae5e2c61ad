"""Lets a program import a ``pipeline`` or ``harness`` of its own, though ours came first.

Ranks are made with our packages imported. Where ``sys.path`` has another package of such a name
before ours, Python without us would have imported that one: ours leaves ``sys.modules`` while the
program runs. Our own code goes on, because it has all it needs by then and imports nothing more
by name; only pickling looks names up, so ours must come back before a result is sent.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from types import ModuleType

_NAMES = ("harness", "pipeline")
_is_rank = False
_refuse: Callable[[str], BaseException] | None = None  # in the simulated world
_ours: dict[str, ModuleType] = {}  # what is aside
_theirs: set[str] = set()  # of which a program's own was used in this process


def allow() -> None:
    """Let our packages step aside in this process: it is a rank."""
    global _is_rank
    _is_rank = True


def refuse_by(refuse: Callable[[str], BaseException] | None) -> None:
    """Where our packages cannot step aside: raise what ``refuse`` returns for such a program."""
    global _refuse
    _refuse = refuse


def step_aside() -> None:
    """Take our packages out of the way of those that ``sys.path`` has before them."""
    if _refuse is not None:
        for name in _NAMES:
            ours = sys.modules.get(name)
            if ours is not None and _is_hidden(name, ours):
                raise _refuse(f"a package of the program's own that has the name of ours, {name}")
        return
    if not _is_rank:
        return
    for name in _NAMES:
        ours = sys.modules.get(name)
        if ours is None or name in _theirs or not _is_hidden(name, ours):
            continue
        _theirs.add(name)
        for known in [known for known in sys.modules if f"{known}.".startswith(f"{name}.")]:
            _ours[known] = sys.modules.pop(known)


def _is_hidden(name: str, ours: ModuleType) -> bool:
    spec = PathFinder.find_spec(name)
    if spec is None or spec.origin is None or ours.__file__ is None:
        return False  # a mere folder gives way to a package
    return os.path.realpath(spec.origin) != os.path.realpath(ours.__file__)


def come_back() -> None:
    """Put our packages back in the place of the program's."""
    for name in _theirs:
        for known in [known for known in sys.modules if f"{known}.".startswith(f"{name}.")]:
            del sys.modules[known]
    sys.modules.update(_ours)
    _ours.clear()


def was_hidden() -> bool:
    """Whether a program of this process had packages of its own: it cannot run another."""
    return bool(_theirs)
