"""The score as a table, and what is not as labelled, in words."""

from __future__ import annotations

from harness.faults.score import Score, Shortfalls, Tally, shortfalls_of
from harness.report.columns import aligned
from harness.report.text import count

_HEAD = ("class", "entries", "found", "code", "place", "noise", "alarms", "semantics", "median s")


def render(score: Score, below: Shortfalls) -> str:
    """Return the table; ``below`` is what makes the command fail."""
    tallies = score.tallies()
    rows = [_HEAD, *(_row(kind, tally) for kind, tally in tallies.items())]
    lines = list(aligned(rows))
    lines.insert(-1, "")
    everything = tallies["all"]
    text = [
        "\n".join(lines),
        "found, code, place: of the entries, how many show anything, the right code and cause,\n"
        "the right ranks and lines too; noise: further errors; alarms: findings on correct twins;\n"
        "semantics: verdicts that are others under one semantics alone",
    ]
    if told := _told(score, below):
        text.append(told)
    text.append(_sum(score, everything, below))
    return "\n\n".join(text)


def _row(kind: str, tally: Tally) -> tuple[str, ...]:
    counts = (tally.entries, tally.found, tally.right_code, tally.right_place)
    wrong = (tally.noise, tally.false_alarms, tally.wrong_semantics)
    return (kind, *map(str, counts), *map(str, wrong), f"{tally.median_s:.3f}")


def _told(score: Score, below: Shortfalls) -> str:
    lines = []
    for verdict in score.verdicts:
        if not (short := shortfalls_of(verdict)):
            continue
        known = "" if verdict.id in below else " (known)"
        lines.append(f"{verdict.id}: {', '.join(short)}{known}")
        expected = verdict.expected or "nothing"
        told = [*verdict.why, *verdict.alarms, *verdict.elsewhere]
        got = ", ".join(verdict.codes) or "nothing"
        lines += [f"  expected {expected}, got {got}", *(f"  {line}" for line in told)]
    return "\n".join(lines)


def _sum(score: Score, tally: Tally, below: Shortfalls) -> str:
    shares = (tally.found, tally.right_code, tally.right_place)
    of = tally.entries or 1
    found, code, place = (f"{100 * share / of:.1f} %" for share in shares)
    ended = f"{len(below)} below the baseline" if below else "nothing below the baseline"
    interrupted = ", interrupted" if score.interrupted else ""
    return (
        f"{count(tally.entries, 'entry', 'entries')} on {score.backend}, "
        f"{score.elapsed_s:.1f} s: found {found}, right code {code}, right place {place}, "
        f"{tally.noise} noise, {tally.false_alarms} false alarms; {ended}{interrupted}"
    )
