"""A world whose ranks are calls in this process, one after the other: quick, and no comms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from harness.case import Case
from harness.execute import CaseResult
from harness.findings import Cases, Finding, Operation, Report
from harness.fuzz import Limits, Progress
from harness.targets import Target
from harness.trace import RankError, Trace
from harness.worlds import Outcome, Program, RankContext, RankOutcome, World


@dataclass
class FakeWorld:
    """Runs an entry for each rank; what it raises is in the outcome."""

    name: str = "gloo"
    programs: list[Program] = field(default_factory=list)
    interrupt: bool = False

    def run(
        self,
        program: Program,
        world_size: int,
        *,
        timeout: float,
        echo: Callable[[int, str], None] | None = None,
        limit: float | None = None,
    ) -> Outcome:
        self.programs.append(program)
        if self.interrupt:
            raise KeyboardInterrupt
        ranks = [self._rank(program, rank, world_size, echo) for rank in range(world_size)]
        failed = any(rank.error is not None for rank in ranks)
        ending = "failed" if failed else "finished"
        trace = Trace(world_size)
        return Outcome(trace, ranks, "failed" if ending == "failed" else "finished", 0.0)

    def _rank(
        self,
        program: Program,
        rank: int,
        world_size: int,
        echo: Callable[[int, str], None] | None,
    ) -> RankOutcome:
        if echo is not None:
            echo(rank, "hello\n")
        try:
            result = program.entry(RankContext(rank, world_size, "cpu", self.name))
        except Exception as error:
            told = RankError(type(error).__name__, str(error), (), time_ns=rank)
            return RankOutcome(rank, error=told)
        return RankOutcome(rank, result=result, finished=True)

    def close(self) -> None:
        pass


DEADLOCK = Finding(
    "deadlock",
    "ranks 0 and 1 wait for each other",
    "make one of them isend, or post both as one batch_isend_irecv",
    ranks=(0, 1),
    operations=(
        Operation(0, "send", "schedule.py", 41, "step", "blocked", peer=1, action="0SEND_F1"),
        Operation(1, "send", "schedule.py", 57, "step", "blocked", peer=0, action="1SEND_B0"),
    ),
    cause="a send completes only when its receive is posted, and both ranks send first",
    case="1f1b world=2 chunks=2 backend=gloo seed=0",
    confirmed_on=("gloo",),
)


@dataclass
class FakeCampaign:
    """Stands for ``harness.fuzz.campaign``: keeps what it was asked, returns what it is told."""

    findings: list[Finding] = field(default_factory=list)
    interrupted: bool = False
    limits: list[Limits] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)

    def __call__(
        self,
        target: Target,
        limits: Limits,
        world: World,
        *,
        real: World | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> Report:
        self.limits.append(limits)
        self.targets.append(target)
        if progress is not None:
            progress(Progress(1, limits.cases, 0, "[a case]"))
        failing = len(self.findings)
        return Report(
            target.text,
            world.name,
            (world.name,),
            findings=list(self.findings),
            cases=Cases(run=4, clean=4 - failing, failing=failing),
            elapsed_s=1.25,
            tried={"world": [1, 2, 3], "chunks": [1, 2, 4], "seed": limits.seed},
            interrupted=self.interrupted,
        )

    def run_case(
        self, target: Target, case: Case, world: World, timeout: float, observe: object = None
    ) -> CaseResult:
        self.targets.append(target)
        return CaseResult(case, tuple(self.findings))
