"""What ``@pytest.mark.world(…)`` asks for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.case import UsageError
from harness.options import MAX_WORLD, backend_name, numbers

if TYPE_CHECKING:
    import pytest


@dataclass(frozen=True, slots=True)
class WorldSpec:
    """One world to run a test's body in; ``id`` is its part of the test's name."""

    size: int
    backend: str
    id: str = ""


def specs_of(mark: pytest.Mark, backend_option: str | None = None) -> list[WorldSpec]:
    """Read a mark: one spec per size and backend; ``backend_option`` replaces its backends.

    UsageError says what of the mark cannot be.
    """
    unknown = set(mark.kwargs) - {"size", "backend"}
    if unknown or len(mark.args) > 2:
        what = ", ".join(sorted(unknown)) or "more than two values"
        raise UsageError(f"{what} is not known: give size=, and backend= if it is not sim")
    given = dict(zip(("size", "backend"), mark.args, strict=False)) | dict(mark.kwargs)
    if "size" not in given:
        raise UsageError("size= is missing: give the number of ranks, as in size=4")
    sizes = numbers(given["size"], "size", MAX_WORLD)
    named = given.get("backend", "sim") if backend_option is None else backend_option
    backends = [named] if isinstance(named, str) else named
    if not isinstance(backends, Iterable) or not all(isinstance(b, str) for b in backends):
        raise UsageError(f"backend={named!r}: give a name or a list of names")
    names = [backend_name(name) for name in dict.fromkeys(backends)]
    if not names:
        raise UsageError("backend=[] is empty: give a name or a list of names")
    return [
        WorldSpec(size, name, _id(size, name, len(sizes) > 1, len(names) > 1))
        for size in sizes
        for name in names
    ]


def _id(size: int, backend: str, several_sizes: bool, several_backends: bool) -> str:
    parts = [f"size={size}"] if several_sizes else []
    return "-".join([*parts, backend] if several_backends else parts)
