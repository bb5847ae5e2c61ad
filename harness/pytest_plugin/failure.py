"""The text of a world test's failure: each rank's error, then what the harness found."""

from __future__ import annotations

from collections.abc import Iterator

from _pytest.outcomes import Failed

from harness.findings import Finding
from harness.pytest_plugin.body import Verdict
from harness.pytest_plugin.marks import WorldSpec
from harness.report.text import render_finding, shown_path
from harness.trace import RankError
from harness.worlds import Outcome


class WorldTestError(Failed, AssertionError):
    """A world test failed; its message is the whole report, and no traceback of pytest's own."""

    __module__ = "builtins"  # so that pytest's summary shows no more than the name

    def __init__(self, message: str) -> None:
        super().__init__(message, pytrace=False)


def describe(nodeid: str, spec: WorldSpec, outcome: Outcome, findings: list[Finding]) -> str:
    """Return the failure's text; empty when no rank failed and no error was found."""
    errors = [(rank.rank, rank.error) for rank in outcome.ranks if rank.error is not None]
    # A rank may also leave in the middle of the test: sys.exit(0), os._exit(0).
    unfinished = [rank.rank for rank in outcome.ranks if not isinstance(rank.result, Verdict)]
    if not unfinished and all(finding.severity == "warning" for finding in findings):
        return ""
    # An error inside a communication is most often another rank's doing: the findings know.
    own = [(rank, error) for rank, error in errors if not error.in_comm]
    told = {rank for rank, _ in own}
    shown = [f for f in findings if f.code != "rank-error" or not set(f.ranks) <= told]
    if not own and not shown:
        own = errors
    blocks = [_headline(spec, own, shown, unfinished)]
    blocks += _errors(own)
    blocks += [render_finding(finding) for finding in shown]
    blocks += _skips(outcome)
    blocks.append(f"again: pytest {nodeid!r}")
    return "\n\n".join(blocks)


def _headline(
    spec: WorldSpec,
    errors: list[tuple[int, RankError]],
    findings: list[Finding],
    unfinished: list[int],
) -> str:
    """Say it in one line, which is all that pytest's summary shows."""
    if errors:
        ranks, what = [rank for rank, _ in errors], _message(errors[0][1])[0]
    elif findings:
        ranks, what = list(findings[0].ranks), f"{findings[0].code}: {findings[0].message}"
    else:
        ranks, what = unfinished, "did not finish"
    who = f"{_name(ranks)} of {spec.size}" if ranks else f"world of {spec.size}"
    return f"{who} on {spec.backend}: {what}"


def _errors(errors: list[tuple[int, RankError]]) -> Iterator[str]:
    """Yield each error once, with all the ranks that raised it alike."""
    alike: dict[str, list[int]] = {}
    for rank, error in errors:
        alike.setdefault(_error(error), []).append(rank)
    for text, ranks in alike.items():
        yield f"{_name(ranks)}: {text}"


def _error(error: RankError) -> str:
    frames = [f for f in error.frames if "/_pytest/" not in f.file and "/pluggy/" not in f.file]
    lines = [error.type]
    for frame in frames:
        lines.append(f"  {shown_path(frame.file)}:{frame.line} in {frame.function}")
        if frame.text:
            lines.append(f"    {frame.text.strip()}")
    lines += [f"E   {line}" for line in _message(error)]
    return "\n".join(lines)


def _message(error: RankError) -> list[str]:
    """Return the whole message: the traceback's last part, which stands at its left edge."""
    lines = error.traceback.splitlines()
    while lines and lines[0].startswith("  "):
        lines.pop(0)
    return lines or [f"{error.type}: {error.message}"]


def _skips(outcome: Outcome) -> Iterator[str]:
    for rank in outcome.ranks:
        if isinstance(rank.result, Verdict) and rank.result.kind != "pass":
            yield f"note: rank {rank.rank} ended by pytest.{rank.result.kind}: {rank.result.reason}"


def _name(ranks: list[int]) -> str:
    return f"rank{'' if len(ranks) == 1 else 's'} {', '.join(map(str, ranks))}"
