"""Marks the functions of a module that are rows of the conformance suite; ranks import this."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

Row = TypeVar("Row", bound=Callable[..., Any])


def row(size: int = 2, **options: Any) -> Callable[[Row], Row]:
    """Mark a program of ``size`` ranks. ``timeout``: seconds after which a hang is given up."""

    def mark(function: Row) -> Row:
        vars(function)["row"] = {"size": size, **options}
        return function

    return mark


def rows(*modules: ModuleType) -> list[Any]:
    """Return the marked functions of modules, in the order in which they stand there."""
    return [f for module in modules for f in vars(module).values() if hasattr(f, "row")]


def attempt(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return what a call returns, or the name of what it raised."""
    try:
        return call(*args, **kwargs)
    except Exception as error:
        return type(error).__name__
