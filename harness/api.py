"""The harness from Python: ``harness.check``, ``harness.run``, ``harness.replay``.

The command is a thin shell over this. Worlds stay warm between calls of one process and are
closed when it ends.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness import options as asked
from harness.case import Case, UsageError
from harness.findings import Cases, Finding, Report
from harness.options import CheckOptions, Numbers, RunOptions
from harness.targets import (
    Command,
    Description,
    Target,
    TargetError,
    confirm,
    describe_in,
    parse_target,
    pickled_build_stage,
)

if TYPE_CHECKING:
    from harness.fuzz import Progress
    from harness.worlds import Outcome, World

TargetLike = str | Callable[..., Any] | Target
Echo = Callable[[int, str], None]

_worlds: dict[tuple[int, str], World] = {}
_lock = threading.Lock()


def shared_world(backend: str) -> World:
    """Return this process's warm world of that backend; WorldError when there can be none."""
    from harness.worlds import open_world

    with _lock:
        key = (os.getpid(), backend)
        if key not in _worlds:
            _worlds[key] = open_world(backend)
        return _worlds[key]


@atexit.register
def close_worlds() -> None:
    """Close the warm worlds of this process; the next call opens new ones."""
    with _lock:
        mine = [key for key in _worlds if key[0] == os.getpid()]
        for key in mine:
            _worlds.pop(key).close()


def check(
    target: TargetLike,
    *,
    backend: str = "gloo",
    semantics: str | None = None,
    world_size: Numbers | None = None,
    chunks: Numbers | None = None,
    cases: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    timeout: float = asked.DEFAULT_TIMEOUT,
    policy: str | None = None,
    strict: bool = False,
    build_stage: Callable[..., Any] | None = None,
) -> Report:
    """Fuzz a schedule and return the report, as ``harness check`` does.

    ``target`` is text as the command takes it, or a function ``step(stage, comms, batch,
    chunks)`` or ``plan(rank, world_size, chunks)``. ``world_size`` and ``chunks`` take a number,
    several, or text such as ``"2..6"``. ``build_stage(index, count, layers, width)`` makes a
    stage's module in the user's own way, to be compared with the monolith's layers.

    UsageError (a ValueError) for what cannot be asked, WorldError where the backend cannot run.

    >>> report = harness.check("1f1b", world_size="2..4", chunks=(1, 4), cases=10)
    >>> report.raise_if_findings()
    """
    options = asked.check_options(
        backend=backend,
        semantics=semantics,
        world_size=world_size,
        chunks=chunks,
        cases=cases,
        seconds=seconds,
        seed=seed,
        timeout=timeout,
        policy=policy,
        strict=strict,
    )
    prepared = prepare(target, "check", options)
    if build_stage is not None:
        if prepared.kind != "step":
            raise UsageError(f"build_stage= goes with a step, and {prepared.text} is none")
        prepared = replace(prepared, build_stage=pickled_build_stage(build_stage))
    return check_prepared(prepared, options)


def read_target(target: TargetLike, command: Command, options: CheckOptions | RunOptions) -> Target:
    """Read what the user named; TargetError or UsageError when the command cannot use it.

    A rank is started only where reading the file cannot tell.
    """
    parsed = parse_target(target, for_command=command, describe=_describe(options))
    if isinstance(options, CheckOptions) and options.policy is not None and parsed.kind == "step":
        raise UsageError(f"--policy goes with a schedule or plan, and {parsed.text} is a step")
    return parsed


def prepare(target: TargetLike, command: Command, options: CheckOptions | RunOptions) -> Target:
    """Read a target and, before a campaign, load it on one rank to see that it does load.

    TargetError, with the user's traceback, when it does not.
    """
    parsed = read_target(target, command, options)
    return confirm(parsed, command, _describe(options)) if command == "check" else parsed


def _describe(options: CheckOptions | RunOptions) -> Callable[[Target], Description]:
    def describe(unknown: Target) -> Description:
        return describe_in(shared_world(options.backend), unknown, options.timeout)

    return describe


def check_prepared(
    target: Target,
    options: CheckOptions,
    progress: Callable[[Progress], None] | None = None,
) -> Report:
    """Run a campaign on a target from :func:`prepare`."""
    from harness.fuzz import Limits, campaign

    endless = options.seconds is not None and options.cases is None
    limits = Limits(
        worlds=options.worlds or asked.DEFAULT_WORLDS,
        chunks=options.chunks or asked.DEFAULT_CHUNKS,
        cases=1_000_000 if endless else options.cases or asked.DEFAULT_CASES,
        seconds=options.seconds,
        timeout=options.timeout,
        seed=options.seed,
        policy=options.policy,
    )
    world = shared_world(options.backend)
    report = campaign(target, limits, world, progress=progress)
    report.strict = options.strict
    return report


def run(
    program: TargetLike,
    world_size: int,
    *,
    backend: str = "gloo",
    semantics: str | None = None,
    args: Iterable[str] = (),
    seed: int = 0,
    timeout: float = asked.DEFAULT_TIMEOUT,
    strict: bool = False,
    echo: Echo | None = None,
) -> Report:
    """Run one program on ``world_size`` ranks under watch, as ``harness run`` does.

    ``program`` is a function called as ``function(rank, world_size)`` with the process group
    ready, or text: ``file.py:function``, or a script ``file.py`` that initialises its own group.
    ``args`` become its ``sys.argv[1:]``; ``echo`` is given (rank, line) of its output live.

    UsageError (a ValueError) for what cannot be asked, WorldError where the backend cannot run.

    >>> harness.run(all_reduce_twice, world_size=4).raise_if_findings()
    """
    options = asked.run_options(
        backend=backend,
        semantics=semantics,
        args=args,
        seed=seed,
        timeout=timeout,
        strict=strict,
    )
    ranks = asked.one_number(world_size, "--world-size", asked.MAX_WORLD)
    return run_prepared(prepare(program, "run", options), ranks, options, echo)


def run_prepared(
    target: Target, world_size: int, options: RunOptions, echo: Echo | None = None
) -> Report:
    """Run a program from :func:`prepare` once."""
    case = Case(
        target.text,
        world_size,
        backend=options.backend,
        semantics=options.semantics,
        seed=options.seed,
        args=options.args,
    )
    return _run_case(target, case, options.timeout, options.strict, echo)


def _run_case(
    target: Target, case: Case, timeout: float, strict: bool, echo: Echo | None
) -> Report:
    from harness.judge import judge
    from harness.targets.entry import ProgramEntry
    from harness.worlds import Program

    program = Program(
        entry=ProgramEntry(target, case.args),
        init_group=target.kind != "script",
        fresh=target.kind == "script",
        delay_ms=case.delay,
        seed=case.seed,
    )
    report = _new_report(target, case, "run", strict)
    started = time.monotonic()
    try:
        world = shared_world(case.backend)
        outcome = world.run(program, case.world, timeout=timeout, echo=echo)
    except KeyboardInterrupt:
        report.interrupted = True
        return report
    report.elapsed_s = time.monotonic() - started
    report.interrupted = outcome.ending == "interrupted"
    _refuse_unloaded(outcome)
    return _filed(report, judge(outcome, case), case)


def _refuse_unloaded(outcome: Outcome) -> None:
    for rank in outcome.ranks:
        if isinstance(rank.result, Description) and rank.result.error is not None:
            raise TargetError(rank.result.error, rank.result.traceback)


def _new_report(target: Target, case: Case, command: Any, strict: bool) -> Report:
    semantics = case.semantics or asked.SEMANTICS.get(case.backend, (case.backend,))[0]
    return Report(target.text, case.backend, (semantics,), command=command, strict=strict)


def _filed(report: Report, findings: list[Finding], case: Case) -> Report:
    report.findings = [f if f.case else f.with_(case=str(case)) for f in findings]
    failing = int(bool(report.failures))
    done = int(not report.interrupted)
    report.cases = Cases(run=done, clean=done - failing if done else 0, failing=failing)
    return report


def replay(
    case: str | Case,
    target: TargetLike | None = None,
    *,
    timeout: float = asked.DEFAULT_TIMEOUT,
    strict: bool = False,
    echo: Echo | None = None,
) -> Report:
    """Run a case from a report again, exactly.

    ``target`` is needed where the case's own was a function that only Python can name.

    UsageError (a ValueError) for a line that is no case, or a target that is not there.
    """
    parsed = Case.parse(case) if isinstance(case, str) else case
    asked.backend_name(parsed.backend)
    asked.semantics_of(parsed.semantics, parsed.backend)
    asked.numbers(parsed.world, "world=", asked.MAX_WORLD)
    timeout = asked.duration(timeout, "--timeout")
    command: Command = "run" if parsed.chunks is None else "check"
    options = CheckOptions(backend=parsed.backend, policy=asked.policy_name(parsed.policy))
    prepared = prepare(parsed.target if target is None else target, command, options)
    if command == "run":
        report = _run_case(prepared, parsed, timeout, strict, echo)
    else:
        report = _check_case(prepared, parsed, timeout, strict)
    report.command = "replay"
    return report


def _check_case(target: Target, case: Case, timeout: float, strict: bool) -> Report:
    from harness.fuzz import run_case

    report = _new_report(target, case, "replay", strict)
    started = time.monotonic()
    try:
        findings = run_case(target, case, shared_world(case.backend), timeout)
    except KeyboardInterrupt:
        report.interrupted = True
        return report
    report.elapsed_s = time.monotonic() - started
    return _filed(report, findings, case)
