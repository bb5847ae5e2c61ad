"""What kind of target a function is: told by the names of its parameters, without importing it."""

from __future__ import annotations

import ast
import difflib
import inspect
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.case import UsageError

Kind = Literal["schedule", "step", "plan", "csv", "torch", "program", "script"]
Command = Literal["check", "run"]

CALLED_WITH: dict[str, tuple[str, ...]] = {
    "step": ("stage", "comms", "batch", "chunks"),
    "plan": ("rank", "world_size", "chunks"),
    "program": ("rank", "world_size"),
}
SEVERAL_STAGES = ("stages", "comms", "batch", "chunks")
"""What a step is called with whose ranks hold several stages."""


class TargetError(UsageError):
    """A target that cannot be used; ``traceback`` is the user's own, from their frame on."""

    def __init__(self, message: str, traceback: str = "") -> None:
        super().__init__(message)
        self.traceback = traceback


@dataclass(frozen=True, slots=True)
class Signature:
    """A function's parameters, as far as calling it needs."""

    positional: tuple[str, ...]
    required: tuple[str, ...]  # without a default: positional first, then keyword-only
    any_number: bool = False  # has *args
    is_async: bool = False

    def __str__(self) -> str:
        shown = [name if name in self.required else f"{name}=…" for name in self.positional]
        shown += ["*args"] if self.any_number else []
        keyword_only = [name for name in self.required if name not in self.positional]
        shown += ["*", *keyword_only] if keyword_only and not self.any_number else keyword_only
        return f"({', '.join(shown)})"

    def takes(self, names: tuple[str, ...]) -> bool:
        """Whether it can be called with exactly these names, and needs no more."""
        have = {*self.positional, *self.required}
        return have.issuperset(names) and set(self.required) <= set(names)

    @property
    def has_several_stages(self) -> bool:
        """Whether it is a step that is given a list of stages."""
        return self.takes(SEVERAL_STAGES)

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Signature:
        """Read a live function's; TypeError or ValueError when it has none."""
        kinds = inspect.Parameter
        positional, required, any_number = [], [], False
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD):
                positional.append(name)
            any_number |= parameter.kind is kinds.VAR_POSITIONAL
            variadic = parameter.kind in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)
            if parameter.default is kinds.empty and not variadic:
                required.append(name)
        is_async = inspect.iscoroutinefunction(function)
        return cls(tuple(positional), tuple(required), any_number, is_async)


def kind_for(signature: Signature, name: str, command: Command) -> Kind:
    """Tell what a function is to ``harness check`` or ``harness run``.

    TargetError when that command cannot use it.
    """
    if signature.is_async:
        raise TargetError(f"{name} is an async function: make it a plain def")
    if signature.has_several_stages:
        if command == "run":
            raise TargetError(f"{name} is a step, which is checked: use 'harness check'")
        return "step"
    kinds = [kind for kind, names in CALLED_WITH.items() if signature.takes(names)]
    if command == "run":
        if kinds[:1] in (["step"], ["plan"]) and "program" not in kinds:
            raise TargetError(f"{name} is a {kinds[0]}, which is checked: use 'harness check'")
        required = len(signature.required)
        if signature.any_number or required <= 2 <= len(signature.positional):
            return "program"
        raise TargetError(
            f"{name}{signature} cannot be run: it is called as function(rank, world_size)"
        )
    if "step" in kinds or "plan" in kinds:
        return "step" if "step" in kinds else "plan"
    if "program" in kinds:
        raise TargetError(f"{name} is a program, not a schedule: use 'harness run {name} -n N'")
    raise TargetError(
        f"{name}{signature} cannot be checked: its parameters are to be "
        "(stage, comms, batch, chunks) for a step, with stages where a rank holds several, or "
        "(rank, world_size, chunks) for a plan"
    )


def read_file(path: Path, function: str, shown: str) -> Signature | None:
    """Find a function's parameters in a file without running it.

    None when that cannot be told so: decorated, imported, or assigned. TargetError when the file
    cannot be read, is not Python, or has no such function.
    """
    module = parse_source(path, shown)
    bound: dict[str, ast.AST] = {}
    dynamic = False
    for name, node in _bindings(module.body):
        if name == "*":
            dynamic = True
        else:
            bound[name] = node
    head = function.split(".")[0]
    if head not in bound:
        if dynamic or "__getattr__" in bound:
            return None
        raise TargetError(no_such_function(shown, function, _functions(bound)))
    node = bound[head]
    if "." in function or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    return None if node.decorator_list else _signature(node)


def no_such_function(shown: str, function: str, known: list[str]) -> str:
    """Say that a module lacks a function, and what it has instead."""
    close = difflib.get_close_matches(function, known, n=1)
    if close:
        return f"{shown} has no function {function!r}: did you mean {close[0]!r}?"
    listed = ", ".join(known[:8]) + (", …" if len(known) > 8 else "") if known else "none"
    return f"{shown} has no function {function!r}; it has: {listed}"


def parse_source(path: Path, shown: str) -> ast.Module:
    """Read a file's syntax; TargetError when it cannot be read, or is not Python."""
    try:
        return ast.parse(path.read_bytes(), filename=str(path))
    except OSError as error:
        raise TargetError(f"{shown} cannot be read: {error.strerror}") from None
    except (SyntaxError, ValueError) as error:
        what = error.msg if isinstance(error, SyntaxError) else str(error)
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        text = "".join(traceback.format_exception_only(error))
        raise TargetError(f"{shown} is not Python{line}: {what}", text) from None


def _bindings(body: list[ast.stmt]) -> Iterator[tuple[str, ast.AST]]:
    """Yield each top-level name with what binds it, in order; ``*`` for a star import."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name.split(".")[0], node) for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = (leaf for target in targets for leaf in ast.walk(target))
            yield from ((leaf.id, node) for leaf in names if isinstance(leaf, ast.Name))
        elif isinstance(node, ast.If | ast.Try | ast.With | ast.For | ast.While | ast.Match):
            for name, inner in _bindings(_inside(node)):
                # Which branch runs cannot be told here: the name is known, its form is not.
                yield name, node if isinstance(inner, ast.FunctionDef) else inner


def _inside(node: ast.stmt) -> list[ast.stmt]:
    return [child for child in ast.walk(node) if isinstance(child, ast.stmt) and child is not node]


def _functions(bound: dict[str, ast.AST]) -> list[str]:
    """Name what may be a target: a schedule class of torch's may be one too."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    return [name for name, node in bound.items() if isinstance(node, kinds)]


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Signature:
    a = node.args
    positional = [argument.arg for argument in (*a.posonlyargs, *a.args)]
    required = positional[: len(positional) - len(a.defaults)]
    keyword = zip(a.kwonlyargs, a.kw_defaults, strict=True)
    required += [argument.arg for argument, default in keyword if default is None]
    is_async = isinstance(node, ast.AsyncFunctionDef)
    return Signature(tuple(positional), tuple(required), a.vararg is not None, is_async)
