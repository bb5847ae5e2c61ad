"""What became of the mutants, as a table, and each that was missed in words."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import get_args

from harness.mutate.campaign import Mutation, Tried, Verdict
from harness.report.columns import aligned
from harness.report.text import count

_HEAD = ("operator", "mutants", "caught", "equivalent", "missed", "alarms", "not run", "found as")
SHOWN = 12  # mutants of a kind that are told one by one
CODES = 4  # most frequent codes of an operator


def render(mutation: Mutation) -> str:
    """Return the table, then what was missed, then the sum."""
    operators = dict.fromkeys(tried.operator for tried in mutation.tried)
    rows = [_HEAD, *(_row(mutation, operator) for operator in operators)]
    parts = ["\n".join(aligned(rows, left=(0, -1)))]
    if missed := mutation.of("missed"):
        parts.append(_told("missed: it means something else, and nothing was found", missed))
    if alarms := mutation.of("alarm"):
        parts.append(_told("false alarms: it means the same, and something was found", alarms))
    if unrun := mutation.of("unrun"):
        parts.append(_told("not run: it cannot be simulated", unrun))
    return "\n\n".join([*parts, headline(mutation)]) + "\n"


def headline(mutation: Mutation) -> str:
    """Return the sum in one line."""
    counted = len(mutation.tried) - len(mutation.of("equivalent"))
    caught = len(mutation.of("caught"))
    text = (
        f"{mutation.target}: {caught} of {count(counted, 'mutant')} caught, "
        f"{len(mutation.of('equivalent'))} more equivalent, {len(mutation.of('missed'))} missed, "
        f"{count(len(mutation.of('alarm')), 'false alarm')}, {mutation.elapsed_s:.1f} s"
    )
    if mutation.left_out:
        text += f"; {mutation.left_out} left out"
    return text + (", interrupted" if mutation.interrupted else "")


def _row(mutation: Mutation, operator: str) -> tuple[str, ...]:
    mine = [tried for tried in mutation.tried if tried.operator == operator]
    verdicts = Counter(tried.verdict for tried in mine)
    codes = Counter(code for tried in mine for code in tried.codes[:1])
    found = ", ".join(f"{code} {times}" for code, times in codes.most_common(CODES))
    counts = [str(verdicts[name]) for name in get_args(Verdict)]
    return (operator, str(len(mine)), *counts, found)


def _told(title: str, mutants: list[Tried]) -> str:
    lines = [title]
    for tried in mutants[:SHOWN]:
        codes = f" ({', '.join(tried.codes)})" if tried.codes else ""
        lines.append(f"  rank {tried.rank}, {tried.operator}: {tried.text}{codes}")
        lines.append(f"    harness replay {shlex.quote(tried.case)}")
    if (more := len(mutants) - SHOWN) > 0:
        lines.append(f"  and {more} more")
    return "\n".join(lines)
