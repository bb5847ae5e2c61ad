"""A target: what the user named, as something that a rank can load."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from harness.targets import loading, torch_classes
from harness.targets.signature import (
    CALLED_WITH,
    SEVERAL_STAGES,
    Command,
    Kind,
    Signature,
    TargetError,
    kind_for,
)
from harness.targets.stages import ONE_EACH, Depth
from pipeline.plan import Plan

_BY_COMPILER = ("checkpoint", "compile", "dynamo", "fsdp", "optim", "pipelining", "tensor.parallel")
"""What of torch imports its compiler, by words of the names that it is reached by."""


@dataclass(frozen=True, slots=True)
class Target:
    """What is checked or run; picklable, and loaded only on a rank.

    ``text`` is as the user wrote it. A function given from Python travels as ``payload``; a file
    target has ``path`` and ``function``, a module target ``module`` and ``function``.
    """

    text: str
    kind: Kind
    multi_stage: bool = False  # a step or a class of torch's that is given a list of stages
    depth: Depth = ONE_EACH  # slices of the model, by world size
    shape: tuple[int, int] | None = None  # (world, chunks), where no other can be
    path: str | None = None
    module: str | None = None
    function: str = ""
    payload: bytes | None = None
    build_stage: bytes | None = None  # given from Python, beside any form of target
    own_model: bytes | None = None  # likewise (harness.targets.own_model)
    without: tuple[str, ...] = ()  # of a case's values, what has no meaning for a user's own model
    search: tuple[str, ...] = ()  # folders to import a module from, before all others
    promises: str | None = None  # of a class of torch's, the schedule whose bound it keeps to

    @property
    def needs_even_batches(self) -> bool:
        """Whether it takes every microbatch to be as large as the first, as torch's schedules."""
        return self.kind == "torch"

    @property
    def takes_compiler(self) -> bool:
        """Whether it may make torch import its compiler, as far as can be told beforehand.

        Where it does so unforeseen, each rank imports it by itself, when it comes to it.
        """
        if self.kind in ("schedule", "csv"):
            return False
        if self.kind == "torch" or "optimizer" in self.without or self.path is None:
            return True
        return loading.mentions(self.path, _BY_COMPILER)

    @property
    def is_plan(self) -> bool:
        """Whether our executor runs it, by a plan."""
        return self.kind in ("schedule", "plan", "csv")

    def load(self) -> Callable[..., Any]:
        """Import it here, on a rank, and return what the rank calls.

        A step is called as ``(stage, comms, batch, chunks)``, a plan as ``(rank, world_size,
        chunks)``, a program as ``(rank, world_size)``, a script as ``()``; what a CSV file gives
        returns its plan; a class of torch's is itself. TargetError, with the user's traceback, when
        the import fails.
        """
        if self.kind == "schedule":
            from pipeline.schedules import get_schedule

            return get_schedule(self.text).generate
        if self.kind == "script":
            assert self.path is not None
            return functools.partial(loading.run_script, self.path)
        if self.kind == "csv":
            assert self.path is not None
            return functools.partial(read_plan, self.path, self.text)
        if self.kind == "torch":
            return self.load_function()
        names = SEVERAL_STAGES if self.multi_stage else CALLED_WITH[self.kind]
        return in_order(self.load_function(), names)

    def load_function(self) -> Callable[..., Any]:
        """Import it here and return the user's own function; TargetError as for :meth:`load`."""
        if self.payload is not None:
            return self._unpickle(self.payload)
        if self.module in torch_classes.MODULES:
            found: Callable[..., Any] = torch_classes.find_class(
                self.text, self.module, self.function, self._import
            )
            return found
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

    def beside(self, names: Sequence[str]) -> dict[str, Any]:
        """Return what stands beside the function in its file or module under these names."""
        if self.payload is not None:
            return {}
        module = self._import()
        return {name: getattr(module, name) for name in names if hasattr(module, name)}

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


def read_plan(path: str, shown: str) -> Plan:
    """Read a plan from a CSV file in torch's form; TargetError says what is wrong with it.

    Its actions come from ``path``; ``shown`` is what the user wrote.
    """
    name = "".join(letter if letter.isprintable() else "?" for letter in Path(path).stem)
    try:
        return Plan.from_csv(Path(path).read_text(encoding="utf-8-sig"), name, path)
    except IsADirectoryError:
        raise TargetError(f"{shown} is a folder, not a file") from None
    except FileNotFoundError:
        raise TargetError(f"there is no file {shown}: give a plan in torch's CSV form") from None
    except OSError as error:
        raise TargetError(f"{shown} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise TargetError(f"{shown} is no text: give a plan in torch's CSV form") from None
    except ValueError as error:
        raise TargetError(f"{shown} is no plan: {error}") from None


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
    if isinstance(function, type) and is_schedule_class(function):
        return _from_class(function, command)
    text = name_of(function)
    try:
        signature = Signature.of(function)
    except (TypeError, ValueError) as error:
        raise TargetError(f"{text} has no readable parameters: {error}") from None
    kind = kind_for(signature, text, command)
    several = kind == "step" and signature.has_several_stages
    return Target(text, kind, several, payload=_pickled(function, text))


def is_schedule_class(found: type) -> bool:
    """Whether a class is a schedule of torch's, without importing torch to see that it is not."""
    if not any(owner.__module__ in torch_classes.MODULES for owner in found.__mro__):
        return False
    from harness.torch_pipelining import is_schedule

    return is_schedule(found)


def _from_class(schedule: type, command: Command) -> Target:
    """Make a target of a schedule class of torch's; its text names it where a file has it."""
    name = schedule.__qualname__
    if schedule.__module__ in torch_classes.MODULES:
        text = f"{schedule.__module__}:{name}"
        found = Target(text, "torch", module=schedule.__module__, function=name)
    else:
        text = _in_file(torch_classes.line_of(schedule).file, name)
        found = Target(text, "torch")
    torch_classes.refuse_to_run(text, command)
    about = torch_classes.describe_class(schedule, text)
    payload = None if found.module else _pickled(schedule, text)
    return replace(
        found,
        multi_stage=about.several,
        depth=about.depth,
        promises=about.promises,
        payload=payload,
    )


def pickled_build_stage(build_stage: Callable[..., Any]) -> bytes:
    """Pickle the user's ``build_stage``; TargetError when that cannot be."""
    return _pickled(build_stage, name_of(build_stage))


def name_of(function: Callable[..., Any]) -> str:
    """Name a function as the command would: ``file.py:function``."""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return str(name) if code is None else _in_file(code.co_filename, str(name))


def _in_file(file: str, name: str) -> str:
    """Write ``file.py:name``, the file as seen from here; the name alone where there is none."""
    if not Path(file).exists():
        return name
    path = os.path.relpath(file)
    return f"{file if path.startswith('..') else path}:{name}"
