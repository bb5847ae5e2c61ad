"""The report of a command that could not check anything, for whoever reads reports by machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

from harness.cli.output import FORMATS, Output

_REPORTING = ("check", "run", "replay")
_FLAGS = ("-q", "--quiet", "--strict", "-h", "--help")  # the other options take a value


@dataclass(frozen=True, slots=True)
class Asked:
    """What the words of a command line ask for, read without refusing any of them."""

    command: Literal["check", "run", "replay"]
    target: str
    backend: str
    output: Output

    def report_error(self, message: str) -> None:
        """Write the report that says so, in the form that was asked for."""
        from harness.findings import Report

        report = Report(self.target, self.backend, (), error=message, command=self.command)
        self.output.show_error(report)


def asked_in(words: Sequence[str]) -> Asked | None:
    """Read a command line; None unless it asks for a report in a form for machines."""
    command, *rest = [*words, ""]
    if command not in _REPORTING:
        return None
    given = rest[: rest.index("--")] if "--" in rest else rest
    form = _value(given, "--format")
    if form not in FORMATS or form == "text":
        return None
    file = _value(given, "--output") or _value(given, "-o")
    backend = _value(given, "--backend") or "sim"
    chosen = cast("Literal['check', 'run', 'replay']", command)
    return Asked(chosen, _target(given), backend, Output(form, file))


def _target(words: Sequence[str]) -> str:
    """Return the first word that is no option and no option's value."""
    for before, word in zip(["", *words], words, strict=False):
        is_value = before.startswith("-") and "=" not in before and before not in _FLAGS
        if word and not word.startswith("-") and not is_value:
            return word
    return ""


def _value(words: Sequence[str], option: str) -> str | None:
    """Return the last value given to an option, as ``--x y``, ``--x=y`` or ``-xy``."""
    found = None
    for word, following in zip(words, [*words[1:], None], strict=True):
        if word == option:
            found = following
        elif word.startswith(option + "="):
            found = word.partition("=")[2]
        elif len(option) == 2 and word.startswith(option):
            found = word[2:]
    return found
