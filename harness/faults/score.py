"""How good the harness is at a corpus: what it finds, by its right name and place, and no more."""

from __future__ import annotations

import json
import statistics
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.faults.corpus import BUILT_IN
from harness.faults.entry import CorpusError, Entry
from harness.faults.examine import Verdict, examine, not_examined

BASELINE = "baseline.json"

Shortfalls = dict[str, tuple[str, ...]]


@dataclass(slots=True)
class Tally:
    """Counts over some entries; ``seconds`` are those to each verdict."""

    entries: int = 0
    found: int = 0
    right_code: int = 0
    right_place: int = 0
    noise: int = 0
    false_alarms: int = 0
    wrong_semantics: int = 0
    seconds: list[float] = field(default_factory=list)

    def add(self, verdict: Verdict) -> None:
        """Count one entry."""
        self.entries += 1
        self.found += verdict.found or verdict.expected is None
        self.right_code += verdict.right_code
        self.right_place += verdict.right_place
        self.noise += verdict.noise
        self.false_alarms += len(verdict.alarms)
        self.wrong_semantics += len(verdict.elsewhere)
        self.seconds.append(verdict.seconds)

    def to_json(self) -> dict[str, Any]:
        """Return the score's form, with shares of the entries beside the counts."""
        share = 1 / self.entries if self.entries else 0.0
        return {
            "entries": self.entries,
            "found": self.found,
            "right_code": self.right_code,
            "right_place": self.right_place,
            "noise": self.noise,
            "false_alarms": self.false_alarms,
            "wrong_semantics": self.wrong_semantics,
            "found_share": round(self.found * share, 4),
            "right_code_share": round(self.right_code * share, 4),
            "right_place_share": round(self.right_place * share, 4),
            "median_s": round(self.median_s, 4),
            "slowest_s": round(max(self.seconds, default=0.0), 4),
        }

    @property
    def median_s(self) -> float:
        """The median of the times to a verdict."""
        return statistics.median(self.seconds) if self.seconds else 0.0


@dataclass(slots=True)
class Score:
    """The verdicts on a corpus."""

    backend: str
    verdicts: list[Verdict] = field(default_factory=list)
    elapsed_s: float = 0.0
    interrupted: bool = False

    def tallies(self) -> dict[str, Tally]:
        """Return the counts of each class, and of ``all`` of them last."""
        found: dict[str, Tally] = {}
        everything = Tally()
        for verdict in sorted(self.verdicts, key=lambda v: (v.kind, v.id)):
            found.setdefault(verdict.kind, Tally()).add(verdict)
            everything.add(verdict)
        return found | {"all": everything}

    @property
    def unrun(self) -> list[Verdict]:
        """The entries that could not be run: nothing is known of them."""
        return [verdict for verdict in self.verdicts if verdict.unrun]

    def shortfalls(self) -> Shortfalls:
        """Return what each entry falls short in, by its id."""
        return {v.id: short for v in self.verdicts if (short := shortfalls_of(v))}

    def below(self, baseline: Shortfalls) -> Shortfalls:
        """Return what falls short and did not when the baseline was made."""
        new = {
            name: tuple(word for word in short if word not in baseline.get(name, ()))
            for name, short in self.shortfalls().items()
        }
        return {name: short for name, short in new.items() if short}

    def to_json(self) -> dict[str, Any]:
        """Return the score as a document."""
        tallies = self.tallies()
        return {
            "schema": 1,
            "backend": self.backend,
            "all": tallies.pop("all").to_json(),
            "classes": {kind: tally.to_json() for kind, tally in tallies.items()},
            "entries": [verdict.to_json() for verdict in self.verdicts],
            "elapsed_s": round(self.elapsed_s, 2),
            "interrupted": self.interrupted,
        }


def shortfalls_of(verdict: Verdict) -> tuple[str, ...]:
    """Return in which respects a verdict is not as labelled."""
    short = []
    if not verdict.right_code:
        short.append("code" if verdict.found else "found")
    elif not verdict.right_place:
        short.append("place")
    if verdict.noise:
        short.append("noise")
    if verdict.alarms:
        short.append("false-alarm")
    if verdict.elsewhere:
        short.append("semantics")
    return tuple(short)


def examine_all(entries: Sequence[Entry], backend: str) -> Iterator[Verdict]:
    """Yield the verdicts: simulated, from several processes at once; else one after another."""
    if backend != "sim":
        yield from (examine(entry, backend=backend) for entry in entries)
    else:
        from harness.spread import spread

        yield from spread(examine, entries, _lost)


def _lost(entry: Entry) -> Verdict:
    """Return the verdict on an entry that has taken the harness's own process down, twice."""
    return not_examined(entry, "the process that examined it died")


def read_baseline(folder: Path | None, backend: str) -> Shortfalls:
    """Return what is known to fall short; CorpusError for a file that is no baseline."""
    path = (folder or BUILT_IN.parent) / BASELINE
    if not path.exists():
        return {}
    try:
        known = json.loads(path.read_text(encoding="utf-8"))[backend]
        return {str(name): tuple(map(str, short)) for name, short in known.items()}
    except KeyError:
        return {}
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        what = str(error).splitlines()[0]
        raise CorpusError(f"{path} is no baseline ({what}): make it anew by --update") from None


def write_baseline(
    folder: Path | None, known: Shortfalls, score: Score, entries: Collection[str]
) -> Shortfalls:
    """Note what falls short now, of the entries that were scored; return what is noted.

    What is known of others stays, as long as they are among ``entries``, the whole corpus.
    """
    path = (folder or BUILT_IN.parent) / BASELINE
    document = _document(path)
    scored = {verdict.id for verdict in score.verdicts}
    kept = {n: short for n, short in known.items() if n not in scored and n in entries}
    new = kept | score.shortfalls()
    document[score.backend] = {name: list(short) for name, short in new.items()}
    path.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return new


def _document(path: Path) -> dict[str, Any]:
    """Return a baseline's document; an empty one where there is none that can be read."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
