"""What the command and the Python functions share: warm worlds, prepared targets, one run.

Worlds stay warm between calls of one process and are closed when it ends.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from harness import nemesis
from harness import options as asked
from harness.case import Case, UsageError
from harness.findings import Cases, Finding, Report
from harness.options import CheckOptions, RunOptions
from harness.targets import (
    Command,
    Description,
    Target,
    TargetError,
    TargetLike,
    confirm,
    describe_in,
    parse_target,
)

if TYPE_CHECKING:
    from harness.fuzz import Progress
    from harness.timeline import Costs, Timeline
    from harness.worlds import Outcome, Program, World

Echo = Callable[[int, str], None]


@dataclass(frozen=True, slots=True)
class Drawing:
    """How a run's virtual time is computed, who draws it, and whether its calls are drawn."""

    costs: Costs
    draw: Callable[[Timeline], None] = lambda timeline: None
    messages: bool = False


_worlds: dict[tuple[int, str, bool], World] = {}
_lock = threading.Lock()


def shared_world(backend: str, *, isolated: bool = False) -> World:
    """Return this process's warm world of that backend; WorldError when there can be none.

    ``isolated`` concerns the simulated one (:func:`harness.worlds.open_world`): its processes are
    gloo's as well, so that of two threads that run something the one waits for the other.
    """
    from harness.worlds import open_world

    def opened(backend: str, *, isolated: bool = False) -> World:
        key = (os.getpid(), backend, isolated)
        if key not in _worlds:
            beside = opened("gloo") if isolated else None
            _worlds[key] = open_world(backend, isolated=isolated, beside=beside)
        return _worlds[key]

    with _lock:
        return opened(backend, isolated=isolated and backend == "sim")


@atexit.register
def close_worlds() -> None:
    """Close the warm worlds of this process; the next call opens new ones."""
    with _lock:
        mine = [key for key in _worlds if key[0] == os.getpid()]
        for key in mine:
            _worlds.pop(key).close()


def read_target(target: TargetLike, command: Command, options: CheckOptions | RunOptions) -> Target:
    """Read what the user named; TargetError or UsageError when the command cannot use it.

    A rank is started only where reading the file cannot tell.
    """
    parsed = parse_target(target, for_command=command, describe=_describe(options))
    if isinstance(options, CheckOptions) and options.policy is not None and not parsed.is_plan:
        what = "a class of torch's" if parsed.kind == "torch" else "a step"
        raise UsageError(f"--policy goes with a schedule or plan, and {parsed.text} is {what}")
    return parsed


def prepare(target: TargetLike, command: Command, options: CheckOptions | RunOptions) -> Target:
    """Read a target and, before a campaign, load it on one rank to see that it does load.

    TargetError, with the user's traceback, when it does not.
    """
    parsed = read_target(target, command, options)
    return confirm(parsed, command, _describe(options)) if command == "check" else parsed


def _describe(options: CheckOptions | RunOptions) -> Callable[[Target], Description]:
    def describe(unknown: Target) -> Description:
        world = shared_world(options.backend, isolated=options.isolated)
        return describe_in(world, unknown, options.timeout)

    return describe


def check_prepared(
    target: Target,
    options: CheckOptions,
    progress: Callable[[Progress], None] | None = None,
) -> Report:
    """Run a campaign on a target from :func:`prepare`."""
    # They start up while the rest is imported.
    world = shared_world(options.backend, isolated=options.isolated)
    real = shared_world("gloo") if options.backend == "sim" and options.confirm else None
    from harness.fuzz import Limits, campaign

    endless = options.seconds is not None and options.cases is None
    worlds, chunks = _shapes(target, options)
    limits = Limits(
        worlds=worlds,
        chunks=chunks,
        cases=1_000_000 if endless else options.cases or asked.DEFAULT_CASES,
        seconds=options.seconds,
        timeout=options.timeout,
        seed=options.seed,
        policy=options.policy,
        semantics=options.semantics,
        capacity=options.capacity,
        nemesis=options.nemesis,
    )
    report = campaign(target, limits, world, real=real, progress=progress)
    report.strict = options.strict
    return report


def _shapes(target: Target, options: CheckOptions) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the world sizes and chunk counts to try; UsageError where the target has none."""
    if target.shape is None:
        return options.worlds or asked.DEFAULT_WORLDS, options.chunks or asked.DEFAULT_CHUNKS
    world, chunks = target.shape
    if world not in (options.worlds or (world,)) or chunks not in (options.chunks or (chunks,)):
        raise UsageError(
            f"{target.text} is a plan for {world} ranks and {chunks} chunks alone: "
            "leave -n and -c out"
        )
    return (world,), (chunks,)


def run_prepared(
    target: Target,
    world_size: int,
    options: RunOptions,
    echo: Echo | None = None,
    drawing: Drawing | None = None,
) -> Report:
    """Run a program from :func:`prepare` once."""
    case = Case(
        target.text,
        world_size,
        backend=options.backend,
        semantics=options.semantics,
        capacity=options.capacity,
        seed=options.seed,
        args=options.args,
        nemesis=nemesis.draw(options.nemesis, options.seed, world_size, nemesis.REACH),
    )
    nemesis.require(case)
    case = nemesis.restricted(case)
    return run_program(
        target,
        case,
        options.timeout,
        options.strict,
        echo,
        isolated=options.isolated,
        confirm=options.confirm,
        drawing=drawing,
    )


def run_program(
    target: Target,
    case: Case,
    timeout: float,
    strict: bool,
    echo: Echo | None = None,
    *,
    isolated: bool = False,
    confirm: bool = False,
    drawing: Drawing | None = None,
) -> Report:
    """Run a program's case once, and judge it; TargetError when a rank cannot load it.

    A simulated program is run again in other interleavings, and what is found is confirmed on
    real ranks; a script is the user's to start: what it writes, it writes once.
    """
    world = shared_world(case.backend, isolated=isolated)  # starts up while the rest is imported
    from harness.explore import explore, simulated_of
    from harness.judge import judge, told_once
    from harness.ledger import settled
    from harness.targets.entry import ProgramEntry
    from harness.worlds import Program

    program = Program(
        entry=nemesis.harmed(ProgramEntry(target, case.args), case.nemesis),
        init_group=target.kind != "script",
        fresh=True,  # nothing of an earlier run, so that a replay is the same run
        delay_ms=case.delay,
        seed=case.seed,
        simulated=simulated_of(case),
    )
    report = _new_report(target, case, "run", strict)
    started = time.monotonic()
    try:
        outcome = world.run(program, case.world, timeout=timeout, echo=echo)
    except KeyboardInterrupt:
        report.interrupted = True
        return report
    report.interrupted = outcome.ending == "interrupted"
    changed = settled(outcome)
    _refuse_unloaded(outcome)
    findings = [*changed, *judge(outcome, case)]
    if (why := outcome.notes.get("instead")) is not None:
        report.tried["on real ranks"] = why
    ended = not report.interrupted
    report.tried |= tried_of(outcome, drawing)
    if case.nemesis is not None:
        done = {note for history in outcome.trace.ranks for note in history.notes}
        report.tried["injected"] = nemesis.describe(case.nemesis, done)
    once = target.kind == "script"
    if ended and not once:
        _explain(findings, program, case, world, report)
    if ended and world.name == "sim" and not any(f.severity == "error" for f in findings):
        try:
            more = explore(program, case, world, timeout, outcome, judge, "warning", again=not once)
        except KeyboardInterrupt:
            report.interrupted = True
        else:
            findings = told_once([*findings, *more.findings])
            report.tried["runs"] = more.runs
    if ended and world.name == "sim" and confirm and not once and findings:
        findings = _confirmed(findings, program, case, timeout, report)
    findings = list(nemesis.with_injected(findings, case, outcome))
    report.elapsed_s = time.monotonic() - started
    return _filed(report, findings, case, ended=ended)


def tried_of(outcome: Outcome, drawing: Drawing | None) -> dict[str, Any]:
    """Return what a report says of one run: the hash of a simulated one's trace, virtual time."""
    from harness.timeline import compute_timeline
    from harness.worlds.simulated.recorded import trace_hash

    tried: dict[str, Any] = {}
    if (found := trace_hash(outcome)) is not None:
        tried["trace"] = found
    if drawing is not None and drawing.messages:
        from harness.report.messages import render_messages

        tried["messages"] = render_messages(outcome.trace)
    if drawing is None or not any(history.computes for history in outcome.trace.ranks):
        return tried
    timeline = compute_timeline(outcome.trace, drawing.costs)
    tried["virtual_time"] = timeline.to_json()
    drawing.draw(timeline)
    return tried


def _confirmed(
    findings: list[Finding], program: Program, case: Case, timeout: float, report: Report
) -> list[Finding]:
    """Run a simulated program on real gloo ranks, and say which findings show there too."""
    from harness.judge import judge
    from harness.ledger import settled
    from harness.roots import Root
    from harness.worlds import WorldError

    try:
        outcome = shared_world("gloo").run(program, case.world, timeout=timeout)
    except KeyboardInterrupt:
        report.interrupted = True
        return findings
    except WorldError:
        return findings
    if outcome.ending == "interrupted":
        report.interrupted = True
        return findings
    there = case.with_(backend="gloo", semantics=None, capacity=None)
    real = [Root.of(finding) for finding in [*settled(outcome), *judge(outcome, there)]]
    return [
        finding.with_(
            confirmed_on=("sim", "gloo")
            if any(Root.of(finding).same(root) for root in real)
            else ("sim",)
        )
        for finding in findings
    ]


def _explain(
    findings: list[Finding], program: Program, case: Case, world: World, report: Report
) -> None:
    """Look for what buffered sends would change; a Ctrl-C meanwhile leaves what was found."""
    from harness.buffering import LIMIT_S, explain_buffering

    def rerun(buffered: Program) -> Outcome:
        return world.run(buffered, case.world, timeout=LIMIT_S, limit=LIMIT_S)

    try:
        for place, finding in enumerate(findings):
            findings[place] = explain_buffering(finding, program, rerun)
    except KeyboardInterrupt:
        report.interrupted = True


def _refuse_unloaded(outcome: Outcome) -> None:
    for rank in outcome.ranks:
        if isinstance(rank.result, Description) and rank.result.error is not None:
            raise TargetError(rank.result.error, rank.result.traceback)


def _new_report(
    target: Target, case: Case, command: Literal["run", "replay"], strict: bool
) -> Report:
    semantics = asked.semantics_tried(case.backend, case.semantics)
    return Report(target.text, case.backend, semantics, command=command, strict=strict)


def _filed(report: Report, findings: list[Finding], case: Case, *, ended: bool = True) -> Report:
    report.findings = [f if f.case else f.with_(case=str(case)) for f in findings]
    failing = int(bool(report.failures))
    done = int(ended)
    report.cases = Cases(run=done, clean=done - failing if done else 0, failing=failing)
    return report


def check_case(
    target: Target,
    case: Case,
    timeout: float,
    strict: bool,
    *,
    isolated: bool = False,
    drawing: Drawing | None = None,
) -> Report:
    """Run a schedule's case once, and judge it; UsageError when the schedule refuses it."""
    world = shared_world(case.backend, isolated=isolated)
    from harness.execute import program_of, run_case

    report = _new_report(target, case, "replay", strict)
    started = time.monotonic()
    try:
        result = run_case(
            target, case, world, timeout, lambda o: report.tried.update(tried_of(o, drawing))
        )
    except KeyboardInterrupt:
        report.interrupted = True
        return report
    report.elapsed_s = time.monotonic() - started
    findings = list(result.findings)
    _explain(findings, program_of(target, case, fresh=True), case, world, report)
    return _filed(report, findings, case)
