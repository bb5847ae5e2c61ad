"""An entry's page: what the program does, why that is wrong, how it shows, what to do instead."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Sequence
from typing import Any

from harness.faults.entry import Entry, Variant
from harness.faults.label import CLASSES, Label
from harness.report.text import count, shown_path

WIDTH = 92


def render_list(entries: Sequence[Entry]) -> str:
    """Return a line for each entry, under its class."""
    width = max(len(entry.id) for entry in entries)
    codes = max(len(entry.label.code) for entry in entries)
    lines: list[str] = []
    kind = None
    for entry in entries:
        if entry.label.kind != kind:
            kind = entry.label.kind
            about = f": {CLASSES[kind]}" if kind in CLASSES else ""
            lines += [*([""] if lines else []), f"{kind}{about}"]
        lines.append(f"  {entry.id:{width}}  {entry.label.code:{codes}}  {entry.page.title}")
    number = count(len(entries), "entry", "entries")
    return "\n".join([*lines, "", f"{number}; 'harness faults show ID' says more about one.", ""])


def as_json(entry: Entry) -> dict[str, Any]:
    """Return what the list says of an entry, for machines."""
    label = entry.label
    return {
        "id": entry.id,
        "title": entry.page.title,
        "file": shown_path(str(entry.path)),
        "class": label.kind,
        "scope": label.scope,
        "source": label.source,
        "world": label.world,
        "chunks": label.chunks,
        "code": label.code,
        "cause": label.cause,
        "ranks": None if label.ranks is None else list(label.ranks),
        "lines": sorted(entry.marks),
        "deterministic": label.deterministic,
        "semantics": {name: label.expected("sim", name) for name in _semantics()},
        "backends": {name: label.expected(name) for name in ("gloo", "nccl")},
    }


def _semantics() -> tuple[str, ...]:
    from harness.options import SEMANTICS

    return SEMANTICS["sim"]


def sections(entry: Entry) -> list[tuple[str, str]]:
    """Return the page's titled parts, without the programs."""
    page = entry.page
    return [
        ("What it does", _paragraph(page.does)),
        ("Why it is wrong", _paragraph(page.wrong)),
        ("How it shows", _paragraph(page.shows)),
        ("Instead", _paragraph(page.instead)),
        ("Verdict", verdict(entry.label)),
        ("Source", _paragraph(entry.label.source)),
    ]


def verdict(label: Label) -> str:
    """Say what is found, on how many ranks, and under which semantics it is something else."""
    shape = f"world {label.world}" + (f", chunks {label.chunks}" if label.chunks else "")
    cause = f", cause {label.cause}" if label.cause else ""
    ranks = f", ranks {', '.join(map(str, label.ranks))}" if label.ranks else ""
    lines = [f"{label.code}{cause}{ranks} ({shape} is the smallest)"]
    lines += [
        f"{name}: {label.expected('sim', name) or 'nothing'}"
        for name in _semantics()
        if label.expected("sim", name) != label.code
    ]
    if label.expected("gloo") != label.expected("sim", "gloo"):
        lines.append(f"real gloo ranks: {label.expected('gloo') or 'nothing'}")
    if not label.deterministic:
        lines.append("depends on which rank comes first")
    return "\n".join(lines)


def program(entry: Entry, variant: Variant) -> str:
    """Return a variant's code, with what its attributes name, such as its ``build_stage``.

    A script is shown whole, once, as the faulty one.
    """
    module = ast.parse(entry.source)
    shown = [] if entry.label.scope == "script" else module.body
    if shown := [node for node in shown if _is_part(node, variant, module)]:
        lines = entry.source.splitlines()
        parts = []
        for node in shown:
            decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
            first = min([node.lineno, *(d.lineno for d in decorators)])
            parts.append("\n".join(lines[first - 1 : node.end_lineno]))
        return "\n\n\n".join(parts)
    after = next(n.end_lineno or 0 for n in module.body if ast.unparse(n).startswith("LABEL"))
    return "\n".join(entry.source.splitlines()[after:]).strip() if variant == "faulty" else ""


def _is_part(node: ast.stmt, variant: Variant, module: ast.Module) -> bool:
    """Whether a statement is shown: a variant's own, and with the faulty one what both use."""
    if variant == "correct" or _belongs(node, variant, module):
        return _belongs(node, variant, module)
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "LABEL":
        return False
    is_code = isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Assign)
    return is_code and not _belongs(node, "correct", module)


def _belongs(node: ast.stmt, variant: Variant, module: ast.Module) -> bool:
    """Whether a statement is the variant's function, its attribute, or the function named there."""
    if isinstance(node, ast.Assign):
        return _owner(node) == variant
    named = {
        other.value.id
        for other in module.body
        if isinstance(other, ast.Assign)
        and isinstance(other.value, ast.Name)
        and _owner(other) == variant
    }
    return isinstance(node, ast.FunctionDef) and (node.name == variant or node.name in named)


def _owner(node: ast.Assign) -> str | None:
    """Name what an assignment gives an attribute to."""
    to = node.targets[0]
    if isinstance(to, ast.Attribute) and isinstance(to.value, ast.Name):
        return to.value.id
    return None


def render_page(entry: Entry) -> str:
    """Return the page as plain text, the two programs last."""
    parts = [f"{entry.id} ({entry.label.kind}, {entry.label.scope})\n{entry.page.title}"]
    parts += [f"{title}\n{textwrap.indent(text, '  ')}" for title, text in sections(entry)]
    for title, code in _programs(entry):
        parts.append(f"{title}\n{textwrap.indent(code, '  ')}")
    return "\n\n".join(parts)


def show_rich(entry: Entry) -> None:
    """Print the page on a terminal, with its programs highlighted."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.syntax import Syntax
    from rich.text import Text

    console = Console()
    about = f" ({entry.label.kind}, {entry.label.scope})"
    console.print(Text.assemble((entry.id, "bold red"), about))
    console.print(Text(entry.page.title))
    for title, text in sections(entry):
        console.print()
        console.print(Text(title, style="bold"))
        console.print(Padding(Text(text), (0, 0, 0, 2)))
    for title, code in _programs(entry):
        console.print()
        console.print(Text(title, style="bold"))
        console.print(Padding(Syntax(code, "python", background_color="default"), (0, 0, 0, 2)))


def _programs(entry: Entry) -> list[tuple[str, str]]:
    where = shown_path(str(entry.path))
    told = [(f"Faulty, in {where}", program(entry, "faulty"))]
    if twin := program(entry, "correct"):
        told.append(("Correct", twin))
    return told


def _paragraph(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_on_hyphens=False)
