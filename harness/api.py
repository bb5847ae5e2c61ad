"""The harness from Python: ``harness.check``, ``harness.run``, ``harness.replay``.

The command is a thin shell over the same functions (:mod:`harness.session`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from harness import options as asked
from harness.case import Case, UsageError
from harness.findings import Report
from harness.options import CheckOptions, Numbers
from harness.session import (
    Drawing,
    Echo,
    check_case,
    check_prepared,
    close_worlds,
    prepare,
    read_target,
    run_prepared,
    run_program,
    shared_world,
)
from harness.targets import Command, TargetLike, pickled_build_stage
from harness.targets.own_model import with_own_model

__all__ = ["Drawing", "check", "close_worlds", "replay", "run", "shared_world"]


def check(
    target: TargetLike,
    *,
    backend: str = "sim",
    semantics: str | None = None,
    capacity: object = None,
    isolated: bool = False,
    confirm: bool = True,
    world_size: Numbers | None = None,
    chunks: Numbers | None = None,
    cases: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    timeout: float = asked.DEFAULT_TIMEOUT,
    policy: str | None = None,
    nemesis: str | None = None,
    strict: bool = False,
    build_stage: Callable[..., Any] | None = None,
    model: Callable[[], Any] | None = None,
    data: Callable[[int], Any] | None = None,
    loss: Callable[[Any, Any], Any] | None = None,
    split: Callable[[Any, int], Any] | None = None,
    optimizer: Callable[[Any], Any] | None = None,
) -> Report:
    """Fuzz a schedule and return the report, as ``harness check`` does.

    ``target`` is text as the command takes it, or a function ``step(stage, comms, batch,
    chunks)`` or ``plan(rank, world_size, chunks)``. ``world_size`` and ``chunks`` take a number,
    several, or text such as ``"2..6"``. ``build_stage(index, count, layers, width)`` makes a
    stage's module in the user's own way, to be compared with the monolith's layers. ``model()``
    and ``data(batch)`` put the user's own model in the monolith's place, with ``loss(output,
    targets)``, ``split(model, stages)`` and ``optimizer(parameters)``
    (:class:`pipeline.own_model.Parts`, docs/own-model.md). The ranks are
    simulated in this process (``isolated``: in one of their own); ``confirm`` runs what is found,
    and some of what is not, on real gloo ranks too. ``nemesis`` names faults from outside
    (:mod:`harness.nemesis`) that every case has some of.

    UsageError (a ValueError) for what cannot be asked, WorldError where the backend cannot run.

    >>> report = harness.check("1f1b", world_size="2..4", chunks=(1, 4), cases=10)
    >>> report.raise_if_findings()
    """
    options = asked.check_options(
        backend=backend,
        semantics=semantics,
        capacity=capacity,
        isolated=isolated,
        confirm=confirm,
        world_size=world_size,
        chunks=chunks,
        cases=cases,
        seconds=seconds,
        seed=seed,
        timeout=timeout,
        policy=policy,
        nemesis=nemesis,
        strict=strict,
    )
    named = read_target(target, "check", options)
    named = with_own_model(
        named, model=model, data=data, loss=loss, split=split, optimizer=optimizer
    )
    prepared = prepare(named, "check", options)
    if build_stage is not None:
        if prepared.kind != "step":
            raise UsageError(f"build_stage= goes with a step, and {prepared.text} is none")
        if prepared.without:
            raise UsageError("build_stage= goes with the harness's model: leave model= or it out")
        prepared = replace(prepared, build_stage=pickled_build_stage(build_stage))
    return check_prepared(prepared, options)


def run(
    program: TargetLike,
    world_size: int,
    *,
    backend: str = "sim",
    semantics: str | None = None,
    capacity: object = None,
    isolated: bool = False,
    confirm: bool = True,
    args: Iterable[str] = (),
    nemesis: str | None = None,
    seed: int = 0,
    timeout: float = asked.DEFAULT_TIMEOUT,
    strict: bool = False,
    echo: Echo | None = None,
) -> Report:
    """Run one program on ``world_size`` ranks under watch, as ``harness run`` does.

    ``program`` is a function called as ``function(rank, world_size)`` with the process group
    ready, or text: ``file.py:function``, or a script ``file.py`` that initialises its own group.
    ``args`` become its ``sys.argv[1:]``; ``echo`` is given (rank, line) of its output live.
    ``nemesis`` is as for :func:`check`.

    UsageError (a ValueError) for what cannot be asked, WorldError where the backend cannot run.

    >>> harness.run(all_reduce_twice, world_size=4).raise_if_findings()
    """
    options = asked.run_options(
        backend=backend,
        semantics=semantics,
        capacity=capacity,
        isolated=isolated,
        confirm=confirm,
        args=args,
        nemesis=nemesis,
        seed=seed,
        timeout=timeout,
        strict=strict,
    )
    ranks = asked.one_number(world_size, "--world-size", asked.MAX_WORLD)
    return run_prepared(prepare(program, "run", options), ranks, options, echo)


def replay(
    case: str | Case,
    target: TargetLike | None = None,
    *,
    timeout: float = asked.DEFAULT_TIMEOUT,
    strict: bool = False,
    isolated: bool = False,
    echo: Echo | None = None,
    drawing: Drawing | None = None,
) -> Report:
    """Run a case from a report again, exactly.

    ``target`` is needed where the case's own was a function that only Python can name. ``drawing``
    has the costs by which the report tells virtual time, and may draw it.

    UsageError (a ValueError) for a line that is no case, or a target that is not there.
    """
    parsed = Case.parse(case) if isinstance(case, str) else case
    asked.backend_name(parsed.backend)
    asked.semantics_of(parsed.semantics, parsed.backend)
    asked.numbers(parsed.world, "world=", asked.MAX_WORLD)
    timeout = asked.duration(timeout, "--timeout")
    if parsed.nemesis is not None:
        from harness.nemesis import require

        require(parsed)
    if parsed.mutant is not None:
        from harness.mutate import require_known

        require_known(parsed)
        if parsed.chunks is None:
            raise UsageError(f"mutant={parsed.mutant}: only a schedule's case has mutants")
    command: Command = "run" if parsed.chunks is None else "check"
    options = CheckOptions(
        backend=parsed.backend, policy=asked.policy_name(parsed.policy), isolated=isolated
    )
    prepared = prepare(parsed.target if target is None else target, command, options)
    if command == "run":
        report = run_program(
            prepared, parsed, timeout, strict, echo, isolated=isolated, drawing=drawing
        )
    else:
        report = check_case(prepared, parsed, timeout, strict, isolated=isolated, drawing=drawing)
    report.command = "replay"
    return report
