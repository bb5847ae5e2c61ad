"""Makes ``torch.distributed`` tell the recorder what it is about to do.

Everything that ``torch.distributed`` communicates goes through methods of ``ProcessGroup`` and
ends in methods of ``Work``; those are wrapped, once per process, and cost nothing while no
recorder is active. Programs need no change, whatever they imported under whichever name.
Collectives that torch issues from C++ (DDP's reducer, functional collectives) are not seen:
the backend's own count tells that there was one, and then nothing is concluded from the
collectives of that group.
"""

from __future__ import annotations

import _thread
import sys
from collections.abc import Mapping
from typing import Any

from torch._C._distributed_c10d import ProcessGroup, Work
from torch.distributed import distributed_c10d as c10d

from harness import wrappers

_originals: list[tuple[Any, str, Any]] = []
_OWNERS: tuple[tuple[Any, Mapping[str, wrappers.Wrap]], ...] = (
    (ProcessGroup, wrappers.PROCESS_GROUP),
    (Work, wrappers.WORK),
    (_thread, wrappers.THREAD),
)


def install() -> bool:
    """Wrap ``torch.distributed`` in this process; :func:`uninstall` takes it back.

    False when it was wrapped already: then whoever did it takes it back.
    """
    if _originals:
        return False
    for owner, methods in _OWNERS:
        for name, wrap in methods.items():
            if name in vars(owner):  # names differ by version
                _originals.append((owner, name, vars(owner)[name]))  # which binds, as itself
                setattr(owner, name, _wrapped(owner, name, wrap))
    for name, wrap in wrappers.FUNCTIONS.items():
        original = getattr(c10d, name)
        wrapper = wrap(original)
        _originals.append((None, name, (original, wrapper)))
        everywhere(name, original, wrapper)
    return True


_made: dict[tuple[Any, str], tuple[Any, Any]] = {}  # what a class had there, and its wrapper


def _wrapped(owner: Any, name: str, wrap: wrappers.Wrap) -> Any:
    """Return the wrapper of a method, the same one every time: a simulated case begins with it."""
    there = vars(owner)[name]
    before, wrapper = _made.get((owner, name), (None, None))
    if before is not there:
        wrapper = wrap(getattr(owner, name))
        _made[owner, name] = there, wrapper
    return wrapper


def uninstall() -> None:
    """Take every wrapper back."""
    while _originals:
        owner, name, original = _originals.pop()
        if owner is None:
            everywhere(name, original[1], original[0])
        else:
            setattr(owner, name, original)


_holders: dict[str, tuple[int, list[Any]]] = {}  # name → how many modules there were, who holds it


def everywhere(name: str, original: Any, replacement: Any) -> None:
    """Replace a function of ``torch.distributed`` wherever torch itself holds it."""
    known, holders = _holders.get(name, (0, []))
    if known != len(sys.modules):
        holders = [
            module
            for module_name, module in list(sys.modules.items())
            if module_name.startswith("torch.") and hasattr(module, name)
        ]
        _holders[name] = len(sys.modules), holders
    for module in holders:
        if getattr(module, name, None) is original:
            setattr(module, name, replacement)
