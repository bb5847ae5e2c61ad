"""An entry of the corpus: one file with its page, its label, a faulty program and its twin.

The file is read, not imported: listing a corpus runs nothing of it. It has

- a docstring, its page: a title, then paragraphs that begin with ``Does:``, ``Wrong:``, ``Shows:``
  and ``Instead:``;
- ``LABEL``, a dictionary of literals (:class:`harness.faults.label.Label`);
- two functions, ``faulty`` and ``correct``, of the kind that the label's ``scope`` names. A script
  is run as one instead, with one of these words as its argument;
- a comment ``# fault`` on each line at which the finding is to point.
"""

from __future__ import annotations

import ast
import io
import re
import textwrap
import tokenize
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.case import UsageError
from harness.faults.label import Label, LabelError, read_label
from harness.report.text import shown_path
from harness.targets.signature import TargetError, parse_source

Variant = Literal["faulty", "correct"]
VARIANTS: tuple[Variant, ...] = ("faulty", "correct")
SECTIONS = {"Does": "does", "Wrong": "wrong", "Shows": "shows", "Instead": "instead"}


class CorpusError(UsageError):
    """A corpus or an entry that cannot be read; the message names the file."""


@dataclass(frozen=True, slots=True)
class Page:
    """What an entry says to a reader."""

    title: str
    does: str
    wrong: str
    shows: str
    instead: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One fault of a corpus. ``marks`` are the lines that its finding points at."""

    path: Path
    label: Label
    page: Page
    marks: frozenset[int]
    source: str

    @property
    def id(self) -> str:
        """The name by which the command knows it: the file's, with hyphens."""
        return self.path.stem.replace("_", "-")

    def target(self, variant: Variant) -> str:
        """Return what ``harness run`` or ``harness check`` is given."""
        path = shown_path(str(self.path))
        return path if self.label.scope == "script" else f"{path}:{variant}"


def read_entry(path: Path) -> Entry:
    """Read a file of a corpus; CorpusError says what it lacks."""
    try:
        module = parse_source(path, str(path))
    except TargetError as error:
        raise CorpusError(str(error)) from None
    with tokenize.open(path) as file:  # in whatever encoding the file says that it has
        source = file.read()
    try:
        label = read_label(_literal(module))
        entry = Entry(path, label, _page(module), _marks(source), source)
    except LabelError as error:
        raise CorpusError(f"{path}: {error}") from None
    names = {node.name for node in module.body if isinstance(node, ast.FunctionDef)}
    missing = [variant for variant in VARIANTS if variant not in names]
    if missing and label.scope != "script":
        raise CorpusError(f"{path} has no function {missing[0]}: an entry has faulty and correct")
    return entry


def _literal(module: ast.Module) -> object:
    for node in module.body:
        if isinstance(node, ast.Assign) and [ast.unparse(t) for t in node.targets] == ["LABEL"]:
            try:
                return ast.literal_eval(node.value)
            except (ValueError, TypeError):
                raise LabelError("LABEL is to be a dictionary of literals") from None
    raise LabelError("it has no LABEL = {…}")


def _page(module: ast.Module) -> Page:
    title, *rest = (ast.get_docstring(module) or "").split("\n\n")
    found: dict[str, str] = {}
    for paragraph in rest:
        word, colon, text = paragraph.partition(":")
        if colon and word in SECTIONS:
            found[SECTIONS[word]] = _flowing(text)
    missing = [word for word, name in SECTIONS.items() if not found.get(name)]
    if not title.strip() or missing:
        lacks = f"the paragraph '{missing[0]}: …'" if missing else "a title"
        raise LabelError(f"its docstring lacks {lacks}")
    return Page(_flowing(title), **found)


def _flowing(text: str) -> str:
    return " ".join(textwrap.dedent(text).split())


def _marks(source: str) -> frozenset[int]:
    """Return the lines with a comment ``# fault``."""
    comments = (
        token
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    )
    return frozenset(token.start[0] for token in comments if re.match(r"#\s*fault\b", token.string))
