"""A target: what the user named, as something that a rank can load."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from harness.targets import loading
from harness.targets.signature import (
    CALLED_WITH,
    Command,
    Kind,
    Signature,
    TargetError,
    kind_for,
)


@dataclass(frozen=True, slots=True)
class Target:
    """What is checked or run; picklable, and loaded only on a rank.

    ``text`` is as the user wrote it. A function given from Python travels as ``payload``; a file
    target has ``path`` and ``function``, a module target ``module`` and ``function``.
    """

    text: str
    kind: Kind
    multi_stage: bool = False
    path: str | None = None
    module: str | None = None
    function: str = ""
    payload: bytes | None = None
    build_stage: bytes | None = None  # given from Python, beside any form of target
    search: tuple[str, ...] = ()  # folders to import a module from, before all others

    def load(self) -> Callable[..., Any]:
        """Import it here, on a rank, and return what the rank calls.

        A step is called as ``(stage, comms, batch, chunks)``, a plan as ``(rank, world_size,
        chunks)``, a program as ``(rank, world_size)``, a script as ``()``. TargetError, with the
        user's traceback, when the import fails.
        """
        if self.kind == "schedule":
            from pipeline.schedules import get_schedule

            return get_schedule(self.text).generate
        if self.kind == "script":
            assert self.path is not None
            return functools.partial(loading.run_script, self.path)
        return in_order(self.load_function(), CALLED_WITH[self.kind])

    def load_function(self) -> Callable[..., Any]:
        """Import it here and return the user's own function; TargetError as for :meth:`load`."""
        if self.payload is not None:
            return self._unpickle(self.payload)
        return self._find(self.function)

    def load_build_stage(self) -> Callable[..., Any] | None:
        """Return the user's ``build_stage(index, count, layers, width)``, or None.

        It splits and initialises the model in the user's own way; it is given from Python, is the
        step's attribute of that name, or stands beside the step in the same file.
        """
        if self.build_stage is not None:
            return self._unpickle(self.build_stage)
        if self.kind != "step":
            return None
        if (own := getattr(self.load_function(), "build_stage", None)) is not None:
            return cast("Callable[..., Any]", own)
        if self.payload is not None:
            return None
        has_one = hasattr(self._import(), "build_stage")
        return self._find("build_stage") if has_one else None

    def _find(self, function: str) -> Callable[..., Any]:
        shown = self.text.rpartition(":")[0] or self.text
        return loading.load_function(shown, function, self._import)

    def _import(self) -> Any:
        if self.path is not None:
            return loading.import_file(self.path)
        assert self.module is not None
        return loading.import_module(self.module, self.search)

    def _unpickle(self, payload: bytes) -> Callable[..., Any]:
        def load() -> Any:
            return _Holder(loading.unpickle(payload))

        return loading.load_function(self.text, "value", load)


class _Holder:
    """Makes an unpickled function look like a module that has it."""

    def __init__(self, value: Any) -> None:
        self.value = value


def in_order(function: Callable[..., Any], names: tuple[str, ...]) -> Callable[..., Any]:
    """Let a function whose parameters stand in another order be called in the usual one."""
    try:
        positional = Signature.of(function).positional
    except (TypeError, ValueError):
        return function
    if positional[: len(names)] == names or not set(names) <= set(positional):
        return function

    @functools.wraps(function)
    def by_keyword(*values: Any) -> Any:
        return function(**dict(zip(names, values, strict=True)))

    return by_keyword


def pickle_by_value(value: Any, modules: Sequence[Any] = ()) -> bytes:
    """Pickle for a fresh process: what the user's own modules define travels by value.

    That is the module that defines ``value``, and ``modules``. Whatever error pickling raises
    passes through.
    """
    import cloudpickle

    from harness.pickling import dumps

    home = sys.modules.get(getattr(value, "__module__", None) or "")
    with ExitStack() as stack:
        for module in {id(m): m for m in (home, *modules) if m is not None}.values():
            file = getattr(module, "__file__", None)
            if not file or module.__name__ == "__main__" or not loading.is_users(file):
                continue
            if module.__name__ not in cloudpickle.list_registry_pickle_by_value():
                cloudpickle.register_pickle_by_value(module)
                stack.callback(cloudpickle.unregister_pickle_by_value, module)
        return dumps(value)


def _pickled(function: Callable[..., Any], text: str) -> bytes:
    try:
        return pickle_by_value(function)
    except Exception as error:
        what = " ".join(str(error).split())
        raise TargetError(
            f"{text} cannot be sent to the ranks ({type(error).__name__}: {what}): "
            "create what cannot be pickled inside of the function"
        ) from error


def from_callable(function: Callable[..., Any], command: Command) -> Target:
    """Make a target of a function given from Python; its text names its file and itself.

    TargetError when the command cannot use it, or it cannot be pickled.
    """
    text = name_of(function)
    try:
        signature = Signature.of(function)
    except (TypeError, ValueError) as error:
        raise TargetError(f"{text} has no readable parameters: {error}") from None
    kind = kind_for(signature, text, command)
    return Target(text, kind, payload=_pickled(function, text))


def pickled_build_stage(build_stage: Callable[..., Any]) -> bytes:
    """Pickle the user's ``build_stage``; TargetError when that cannot be."""
    return _pickled(build_stage, name_of(build_stage))


def name_of(function: Callable[..., Any]) -> str:
    """Name a function as the command would: ``file.py:function``."""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if code is None or not Path(code.co_filename).exists():
        return str(name)
    path = os.path.relpath(code.co_filename)
    return f"{code.co_filename if path.startswith('..') else path}:{name}"
