"""Campaigns: a target over many cases, every failure shrunk, confirmed and told once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from harness.agreement import Agreement
from harness.ahead import Ahead
from harness.buffering import LIMIT_S, explain_buffering
from harness.case import Case
from harness.coverage import Coverage
from harness.execute import CaseResult, RefusedError, execute, program_of, run_case
from harness.findings import Finding, Report
from harness.options import semantics_tried
from harness.roots import Root
from harness.shrink import shrink
from harness.stream import Limits, stream
from harness.targets import Target, TargetError
from harness.worlds import World, WorldError

__all__ = ["CaseResult", "Limits", "Progress", "RefusedError", "campaign", "execute", "run_case"]

SHRINK_TRIES = {"error": 80, "warning": 6}  # cases run to make one finding smaller
SHRINK_SECONDS = 60.0
STANDING = ("deadlock", "orphan-wait", "timeout", "collective-mismatch", "shape-mismatch")
"""Codes of what meets, in a second step, what the first has left undone."""
UNDONE = ("orphan-wait", "unreceived-message", "unawaited-request", "dropped-request")
"""And of what one step alone then shows."""
CONFIRMATIONS = 3  # fresh runs of a failure that did not repeat at once


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a campaign has come."""

    done: int
    of: int | None
    failing: int
    case: str


def campaign(
    target: Target,
    limits: Limits,
    world: World,
    *,
    real: World | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Report:
    """Run cases of ``target`` until a limit is reached; one finding for each root cause.

    The same seed gives the same cases. A failure is shrunk, run again on fresh ranks, and looked
    past: the other cases go on, for other causes. Where ``world`` is simulated, ``real`` is one of
    real ranks: what is found is tried there too, and some of what is not. On Ctrl-C the report so
    far is returned, with ``interrupted`` set; where the world fails for good in the middle,
    likewise, with ``error``.
    WorldError where the world cannot run at all, TargetError where the target cannot be loaded.
    """
    run = _Campaign(target, limits, world, real, progress)
    try:
        run.go()
    except KeyboardInterrupt:
        run.report.interrupted = True
    except WorldError as error:
        if not run.report.cases.run:
            raise
        run.report.error = f"{error} (after {run.report.cases.run} cases)"
    return run.finished()


@dataclass
class _Campaign:
    target: Target
    limits: Limits
    world: World
    real: World | None
    progress: Callable[[Progress], None] | None
    agreement: Agreement = field(default_factory=Agreement)
    report: Report = field(init=False)
    roots: list[Root] = field(default_factory=list)
    results: dict[Case, CaseResult] = field(default_factory=dict)
    coverage: Coverage = field(default_factory=Coverage)

    def __post_init__(self) -> None:
        self.started = time.monotonic()
        semantics = semantics_tried(self.world.name, self.limits.semantics)
        self.report = Report(self.target.text, self.world.name, semantics)

    def go(self) -> None:
        counts = self.report.cases
        cases = stream(self.target, self.limits, self.world.name)
        ahead = Ahead(self.target, self.world, self.limits.timeout, self.results)
        for case in ahead.of(cases, self._may_run):
            if counts.run >= self.limits.cases or self._time_left() <= 0:
                break
            self._tell(case)
            result = self._run(case)
            counts.run += 1
            if result.refused is not None:
                counts.refused += 1
                refusals = self.report.refusals
                refusals[result.refused] = refusals.get(result.refused, 0) + 1
                continue
            self.coverage.add(result)
            if result.failures:
                counts.failing += 1
            else:
                counts.clean += 1
                self._compare_with_real_ranks(case)
            for finding in result.findings:
                self._look_at(case, finding)

    def _may_run(self, count: int) -> int:
        """Return how many of so many cases there are left, and time enough for by the last ones."""
        done = self.report.cases.run
        count = min(count, self.limits.cases - done)
        if self.limits.seconds is not None:
            taken = time.monotonic() - self.started
            count = min(count, int(self._time_left() * max(1, done) / taken) if taken else 1)
        return count

    def finished(self) -> Report:
        report = self.report
        report.elapsed_s = time.monotonic() - self.started
        report.tried = self.coverage.tried() | {"seed": self.limits.seed} | self.agreement.told()
        if self.target.needs_even_batches:
            report.tried["batches"] = "that are multiples of chunks only"
        counts = report.cases
        refused_all = counts.run > 0 and counts.refused == counts.run
        if refused_all and not report.findings and report.error is None:
            message = next(iter(report.refusals))
            report.error = f"{self.target.text} refuses every shape that was tried: {message}"
        return report

    def _time_left(self) -> float:
        if self.limits.seconds is None:
            return float("inf")
        return self.started + self.limits.seconds - time.monotonic()

    def _tell(self, case: Case) -> None:
        if self.progress is not None:
            counts = self.report.cases
            endless = self.limits.seconds is not None and self.limits.cases >= 1_000_000
            of = None if endless else self.limits.cases
            self.progress(Progress(counts.run, of, counts.failing, str(case)))

    def _run(self, case: Case) -> CaseResult:
        if case not in self.results:
            self.results[case] = self._execute(case)
        return self.results[case]

    def _execute(self, case: Case, *, fresh: bool = False) -> CaseResult:
        """Run a case, once more where the world failed: the next run starts a new one."""
        for last in (False, True):
            try:
                world = self._world_of(case)
                return execute(self.target, case, world, self.limits.timeout, fresh=fresh)
            except WorldError:
                if last:
                    raise
        raise AssertionError("a case either runs or raises")

    def _world_of(self, case: Case) -> World:
        """Return where a case runs: one that only real ranks failed runs on them."""
        if self.real is not None and case.backend == self.real.name:
            return self.real
        return self.world

    def _look_at(self, case: Case, finding: Finding) -> None:
        """Shrink and keep a finding, unless its root cause is known."""
        root = Root.of(finding)
        if any(known.same(root) for known in self.roots) or self._follows(case, finding):
            return
        self.roots.append(root)
        place = len(self.report.findings)
        self.report.findings.append(_with_case(finding, case))
        smallest = self._shrunk(case, root, SHRINK_TRIES[finding.severity])
        small = self._matching(self.results[smallest], root) or finding
        self.report.findings[place] = _with_case(small, smallest)
        confirmed = self._confirmed(case, finding, smallest, small, root)
        if confirmed is None:
            if finding.severity == "warning":  # a passing matter of timing: nothing to tell
                del self.report.findings[place]
                return
            confirmed = unrepeated(_with_case(finding, case))
        self.report.findings[place] = confirmed
        if self._time_left() <= 0:
            return
        again = Case.parse(confirmed.case)
        self.report.findings[place] = explain_buffering(
            confirmed,
            program_of(self.target, again, fresh=True),
            lambda program: self._world_of(again).run(
                program, again.world, timeout=self.limits.timeout, limit=LIMIT_S
            ),
        )

    def _follows(self, case: Case, finding: Finding) -> bool:
        """Whether an error only follows from what one step alone shows, which is then looked at.

        What a step leaves undone meets the next step's calls: the ranks then wait in a circle, say,
        and what is missing is hidden behind that.
        """
        if (case.steps or 1) == 1 or finding.code not in STANDING or self._time_left() <= 0:
            return False
        first = case.with_(steps=1)
        shown = [Root.of(found) for found in self._run(case).findings]
        hidden = [
            found
            for found in self._run(first).failures
            if found.code in UNDONE
            and set(found.ranks) & set(finding.ranks)
            and not any(Root.of(found).same(root) for root in shown)
        ]
        for found in hidden:
            self._look_at(first, found)
        return bool(hidden)

    def _compare_with_real_ranks(self, case: Case) -> None:
        """Run one clean case in several on real ranks: they must find nothing either."""
        if self.real is None or not self.agreement.wants(self.report.cases.run, self._time_left()):
            return
        again = case.with_(backend=self.real.name, semantics=None, capacity=None)
        try:
            result = execute(self.target, again, self.real, self.limits.timeout)
        except WorldError as error:
            self.agreement.unavailable(str(error))
            self.real = None
            return
        self.agreement.add(agrees=not result.failures)
        self.results[again] = result
        try:
            for finding in result.failures:
                self._look_at(again, finding)
        except WorldError as error:
            self.agreement.unavailable(str(error))
            self.real = None

    def _shrunk(self, case: Case, root: Root, tries: int) -> Case:
        until = time.monotonic() + SHRINK_SECONDS
        chunks = self.limits.chunks

        def fails(candidate: Case) -> bool:
            nonlocal tries
            if tries <= 0 or time.monotonic() > until or self._time_left() <= 0:
                return False
            if candidate.world not in self.limits.worlds or candidate.chunks not in chunks:
                return False  # outside of what the user asked for
            if self.target.needs_even_batches and (candidate.batch or 0) % (candidate.chunks or 1):
                return False  # fails for a reason of its own
            tries -= 1
            self._tell(candidate)
            return self._matching(self._run(candidate), root) is not None

        return shrink(case, fails, self.target.depth)

    def _matching(self, result: CaseResult, root: Root) -> Finding | None:
        """Return the result's finding of that root cause, and keep what it says of the root."""
        for finding in result.findings:
            if root.same(Root.of(finding), strictly=True):
                root.merge(Root.of(finding))
                return finding
        return None

    def _confirmed(
        self, case: Case, finding: Finding, smallest: Case, small: Finding, root: Root
    ) -> Finding | None:
        """Run the smallest case again on fresh ranks, else the one it came from.

        None when neither shows it again.
        """
        for again, told in dict.fromkeys(((smallest, 0), (case, 1))):
            shown = _with_case(small if told == 0 else finding, again)
            times, runs = 0, 0
            while runs < CONFIRMATIONS and not (times and times == runs):
                fresh = self._execute(again, fresh=True)
                times += self._matching(fresh, root) is not None
                runs += 1
                if self._time_left() <= 0:
                    break
            if times == runs:
                return shown.with_(confirmed_on=(*self._worlds(again, root),))
            if times:
                details = shown.details | {"repeated": f"{times} of {runs} fresh runs"}
                return shown.with_(confirmed_on=(again.backend,), details=details)
        return None

    def _worlds(self, case: Case, root: Root) -> Iterator[str]:
        """Yield the worlds that show a finding: this one, and real ranks where they do as well."""
        yield case.backend
        if self.real is None or case.backend != "sim" or self._time_left() <= 0:
            return
        if case.semantics is not None and case.semantics.startswith("nccl-"):
            return  # gloo's ranks finish: that is the finding
        again = case.with_(backend=self.real.name, semantics=None, capacity=None, interleaving=None)
        try:
            result = execute(self.target, again, self.real, self.limits.timeout, fresh=True)
        except (WorldError, TargetError):
            return
        if self._matching(result, root) is not None:
            yield self.real.name


def _with_case(finding: Finding, case: Case) -> Finding:
    """Return a finding with the line that replays it; it may have one of its own semantics."""
    return finding if finding.case else finding.with_(case=str(case))


def unrepeated(finding: Finding) -> Finding:
    """Make a finding of a failure that fresh runs of the same case do not show again."""
    return finding.with_(
        code="nondeterminism",
        severity="error",
        message=f"the case failed once ({finding.code}: {finding.message}) and not again",
        help="look for what differs between runs of one case: timing, a race between a transfer "
        "and its buffer, unseeded random numbers, state kept between runs",
        details=finding.details | {"code": finding.code},
    )
