"""Correct cases by the thousand: not one of them may have an error found in it.

Schedules over shapes, semantics, interleavings and what is harmless from outside; the corpus's
correct twins; random communication programs that are right by construction.

``python -m tests.false_alarms --cases 10000 --seed 0`` runs so many, simulated, on all cores.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import hypothesis

from harness import nemesis
from harness.api import close_worlds, run, shared_world
from harness.case import Case, UsageError
from harness.execute import execute
from harness.explore import explore
from harness.faults.corpus import read_corpus
from harness.faults.entry import Entry
from harness.faults.examine import run_entry
from harness.judge import judge
from harness.options import CheckOptions
from harness.session import prepare
from harness.spread import spread
from harness.stream import Limits, stream
from harness.targets import Target
from harness.worlds import Program, Simulated
from pipeline.schedules import RUNNABLE
from tests.conformance.interpreter import Script
from tests.conformance.random_programs import scripts
from tests.worlds.call import Call

ROOT = Path(__file__).parents[1]
STEPS = (
    "examples/gpipe.py:step",
    "examples/one_f_one_b.py:step",
    "tests/stages/steps.py:looped",
    "tests/stages/steps.py:in_a_v",
)
SHARES = {"schedules": 5, "programs": 4, "twins": 1}  # of ten cases
TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Checked:
    """A case of a schedule that is right."""

    target: Target
    case: Case

    def errors(self) -> list[str]:
        result = execute(self.target, self.case, shared_world("sim"), TIMEOUT_S)
        return [f"{f.case}\n  {f.code}: {f.message}" for f in result.failures]


@dataclass(frozen=True, slots=True)
class Scripted:
    """A random program that is right, in one interleaving."""

    script: Script
    seed: int

    def errors(self) -> list[str]:
        size = len(self.script.ranks)
        how = Simulated(interleaving=f"random:{self.seed}" if self.seed else "", guard=True)
        world, program = shared_world("sim"), Program(Call(self.script), simulated=how)
        outcome = world.run(program, size, timeout=TIMEOUT_S)
        case = Case("program", size, seed=self.seed)
        found = judge(outcome, case)
        found += explore(program, case, world, TIMEOUT_S, outcome, judge, "warning").findings
        return [f"{self}\n  {f.code}: {f.message}" for f in found if f.severity == "error"]


@dataclass(frozen=True, slots=True)
class Twin:
    """A correct program of the corpus, as a run or a check of another seed."""

    entry: Entry
    seed: int

    def errors(self) -> list[str]:
        label = self.entry.label
        if label.is_checked:
            options = dict(label.options) | self._seed
            given = replace(self.entry, label=replace(label, options=options))
            report = run_entry(given, "correct")
        else:
            args = ["correct"] if label.scope == "script" else []
            chosen: dict[str, Any] = {
                name: value for name, value in label.options.items() if name != "args"
            }
            target = self.entry.target("correct")
            kinds = "delay,pause,slow-link"
            chosen |= {"args": [*args, *label.options.get("args", ())], "nemesis": kinds}
            report = run(target, label.world, confirm=False, **(chosen | self._seed))
        found = [f for f in report.findings if f.severity == "error"]
        return [f"{self.entry.id} seed {self.seed}\n  {f.code}: {f.message}" for f in found]

    @property
    def _seed(self) -> dict[str, int]:
        return {"seed": self.seed}


Correct = Checked | Scripted | Twin


def examined(correct: Correct) -> tuple[str, list[str]]:
    """Return the kind of a case and the errors that were found in it."""
    try:
        return type(correct).__name__, correct.errors()
    except UsageError as error:
        return "refused", [f"{correct}\n  {error}"]


def lost(correct: Correct) -> tuple[str, list[str]]:
    """Tell of a case that took its process down."""
    return "lost", [f"{correct}\n  its process died"]


def correct_cases(count: int, seed: int) -> list[Correct]:
    """Return so many, of all kinds, decided by the seed."""
    shares = {kind: count * share // 10 for kind, share in SHARES.items()}
    shares["schedules"] += count - sum(shares.values())
    entries = read_corpus()
    twins = [Twin(entries[at % len(entries)], seed + at) for at in range(shares["twins"])]
    return [
        *_schedules(shares["schedules"], seed),
        *(
            Scripted(script, seed + at)
            for at, script in enumerate(_scripts(shares["programs"], seed))
        ),
        *twins,
    ]


def _schedules(count: int, seed: int) -> Iterator[Checked]:
    texts = [*RUNNABLE, *(str(ROOT / step) for step in STEPS)]
    for at, text in enumerate(texts):
        target = prepare(text, "check", CheckOptions())
        share = count // len(texts) + (at < count % len(texts))
        limits = Limits(cases=share, seed=seed)
        for number, case in enumerate(islice(stream(target, limits, "sim"), share)):
            drawn = nemesis.draw(tuple(nemesis.HARMLESS), case.seed + number, case.world, 12)
            given = case.with_(nemesis=drawn) if number % 3 == 0 else case
            yield Checked(target, nemesis.restricted(given))


def _scripts(count: int, seed: int) -> list[Script]:
    found: list[Script] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=max(count, 1),
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(scripts(right=True))
    def collect(script: Script) -> None:
        found.append(script)

    collect()
    return found[:count]


def campaign(count: int, seed: int, progress: bool = False) -> tuple[Counter[str], list[str]]:
    """Run them; return how many there were of each kind, and every error."""
    kinds: Counter[str] = Counter()
    wrong: list[str] = []
    for kind, errors in spread(examined, correct_cases(count, seed), lost):
        kinds[kind] += 1
        wrong += errors
        if progress and kinds.total() % 500 == 0:
            print(f"{kinds.total()} cases, {len(wrong)} errors", flush=True)
    return kinds, wrong


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    started = time.monotonic()
    kinds, wrong = campaign(given.cases, given.seed, progress=True)
    close_worlds()
    for error in wrong:
        print(f"FALSE ALARM {error}")
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    print(f"{told}: {len(wrong)} errors, {time.monotonic() - started:.0f} s")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
