"""All mutants of a schedule, each run as a check runs a case, and what came of them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import product
from typing import Any, Literal, get_args

from harness.case import Case, UsageError
from harness.checkers.memory import promised
from harness.execute import CaseResult, execute
from harness.findings import Finding
from harness.injection import Injection
from harness.mutate.calls import Made, call_mutants
from harness.mutate.meaning import meaning_of
from harness.mutate.plans import plan_mutants
from harness.options import CheckOptions
from harness.parity.results import StepResult, chains
from harness.report.text import shown_path
from harness.spread import spread
from harness.targets import Target
from harness.worlds import Outcome, Program, RankContext, World, WorldError
from pipeline.lower import default_policy, get_policy, lower
from pipeline.plan import validate
from pipeline.schedules import SCHEDULES
from pipeline.schedules.schedule import accept_all

Verdict = Literal["caught", "equivalent", "missed", "alarm", "unrun"]

DEFAULT_WORLD, DEFAULT_CHUNKS = 3, 3
WORLDS = (DEFAULT_WORLD, 2)  # of which the first that a schedule accepts
MOST_CHUNKS = 65
LIMIT_S = 60.0  # of one mutant's run

Tell = Callable[[int, int, str], None]
Place = tuple[str, frozenset[tuple[str, int]]]
"""A finding's code, and the lines of its operations."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mutant to run. ``same``: whether it means what the original does, where that is known."""

    case: Case
    text: str
    same: bool | None = None

    @property
    def operator(self) -> str:
        """What was done."""
        return Injection.parse(self.case.mutant or "").operator


@dataclass(frozen=True, slots=True)
class Tried:
    """What became of one mutant: its verdict, and the findings' codes."""

    operator: str
    rank: int
    text: str
    verdict: Verdict
    codes: tuple[str, ...]
    case: str


@dataclass(slots=True)
class Mutation:
    """What became of all of them; ``seconds`` is the wall clock's."""

    target: str
    backend: str
    tried: list[Tried] = field(default_factory=list)
    left_out: int = 0  # by --cases
    elapsed_s: float = 0.0
    interrupted: bool = False

    def of(self, verdict: Verdict) -> list[Tried]:
        """Return those with a verdict."""
        return [tried for tried in self.tried if tried.verdict == verdict]

    @property
    def ok(self) -> bool:
        """Whether all were run, none missed, and nothing found in what means the same."""
        return not (self.of("missed") or self.of("alarm") or self.of("unrun"))

    def to_json(self) -> dict[str, Any]:
        """Return it as a document."""
        counts = {name: len(self.of(name)) for name in get_args(Verdict)}
        return {
            "schema": 1,
            "target": self.target,
            "backend": self.backend,
            "counts": counts,
            "left_out": self.left_out,
            "mutants": [asdict(tried) for tried in self.tried],
            "elapsed_s": round(self.elapsed_s, 2),
            "interrupted": self.interrupted,
        }


@dataclass(frozen=True, slots=True)
class _Base:
    """A run of the target without errors: its results, its warnings, its calls by rank.

    Of each forward of a rank it is kept whether it is the last stage's.
    """

    results: tuple[StepResult, ...]
    warned: frozenset[Place]
    calls: list[list[Made]]
    forwards: list[list[bool]]


def mutate(
    target: Target, options: CheckOptions, world: World, tell: Tell | None = None
) -> Mutation:
    """Run the mutants of a target; on Ctrl-C those so far, with ``interrupted`` set.

    UsageError where the target itself has findings or refuses the shape.
    """
    started = time.monotonic()
    found = Mutation(target.text, world.name)
    try:
        mutants: list[tuple[Mutant, _Base]] = []
        for ranks, chunks in shapes(target, options):
            mutants += _mutants(target, _case(target, options, ranks, chunks), options, world)
        found.left_out = _sample(mutants, options)
        for done, tried in enumerate(_run(target, mutants, options), 1):
            found.tried.append(tried)
            if tell is not None:
                tell(done, len(mutants), tried.text)
            if options.seconds is not None and time.monotonic() - started > options.seconds:
                found.left_out += len(mutants) - done
                break
    except KeyboardInterrupt:
        found.interrupted = True
    found.elapsed_s = time.monotonic() - started
    return found


def shapes(target: Target, options: CheckOptions) -> list[tuple[int, int]]:
    """Return the shapes that are asked for; what is not asked for is the next that can be."""
    if target.shape is not None:
        own_world, own_chunks = target.shape
        return list(product(options.worlds or (own_world,), options.chunks or (own_chunks,)))
    refusal = SCHEDULES[target.text].refusal if target.kind == "schedule" else accept_all

    def fits(world: int, chunks: int) -> bool:
        return not refusal(world, chunks)

    def world_for(chunks: int) -> int:
        return next((world for world in WORLDS if fits(world, chunks)), WORLDS[-1])

    if options.worlds and options.chunks:
        return list(product(options.worlds, options.chunks))
    if options.chunks:
        return [(world_for(chunks), chunks) for chunks in options.chunks]
    worlds = options.worlds or (world_for(DEFAULT_CHUNKS),)
    enough = range(DEFAULT_CHUNKS, MOST_CHUNKS)
    return [(w, next((c for c in enough if fits(w, c)), DEFAULT_CHUNKS)) for w in worlds]


def _case(target: Target, options: CheckOptions, world: int, chunks: int) -> Case:
    return Case(
        target.text,
        world,
        chunks=chunks,
        batch=2 * chunks,
        layers=target.depth(world) + 1,
        width=4,
        dtype="float64",
        steps=1,
        optimizer="sgd",
        workload="conditioned",
        policy=options.policy,
        semantics=options.semantics,
        capacity=options.capacity,
        seed=options.seed,
    )


def _sample(mutants: list[tuple[Mutant, _Base]], options: CheckOptions) -> int:
    """Keep as many as are asked for, drawn by the seed; return how many were left out."""
    if options.cases is None or len(mutants) <= options.cases:
        return 0
    all_of_them = len(mutants)
    kept = set(random.Random(options.seed).sample(range(all_of_them), options.cases))
    mutants[:] = [mutant for place, mutant in enumerate(mutants) if place in kept]
    return all_of_them - len(mutants)


def _mutants(
    target: Target, case: Case, options: CheckOptions, world: World
) -> Iterator[tuple[Mutant, _Base]]:
    base = _run_base(target, case, options, world)
    if target.is_plan:
        for name, text, same in _surveyed(target, case, options, world):
            yield Mutant(case.with_(mutant=str(name)), text, same), base
    for name, text in call_mutants(base.calls, base.forwards, case.chunks or 1):
        yield Mutant(case.with_(mutant=str(name)), text), base


def _run_base(target: Target, case: Case, options: CheckOptions, world: World) -> _Base:
    seen: list[Outcome] = []
    result = execute(target, case, world, options.timeout, observe=seen.append)
    if result.refused is not None:
        raise UsageError(f"{target.text} refuses the shape of {case}: {result.refused}")
    if result.failures:
        first = result.failures[0]
        raise UsageError(
            f"{target.text} has findings of its own ({first.code}: {first.message}): "
            f"mend what 'harness check {target.text}' shows first"
        )
    (outcome,) = seen
    calls = [
        [
            Made(
                op.kind == "send",
                op.numel or 0,
                f"{op.kind} {op.action or ''} at {shown_path(op.at.file)}:{op.at.line}",
            )
            for op in history.ops.values()
            if op.kind in ("send", "recv") and not op.any_source
        ]
        for history in outcome.trace.ranks
    ]
    results = tuple(rank.result for rank in outcome.ranks)
    last = {chain[-1].number for chain in chains(results)}
    forwards = [
        [c.stage in last for c in history.computes if c.kind == "F"]
        for history in outcome.trace.ranks
    ]
    return _Base(results, frozenset(map(_place, result.findings)), calls, forwards)


def _place(finding: Finding) -> Place:
    return finding.code, frozenset((op.file, op.line) for op in finding.operations)


@dataclass(frozen=True, slots=True)
class _Survey:
    """Lists a plan's mutants, on a rank: the plan may be the user's own code."""

    target: Target
    case: Case

    def __call__(self, context: RankContext) -> list[tuple[Injection, str, bool]]:
        from harness.parity.program import plan_of

        case, target = self.case, self.target
        assert case.chunks is not None
        plan = plan_of(target, target.load(), case.world, case.chunks)
        validate(plan)
        policy = get_policy(case.policy or default_policy(plan))
        original = meaning_of(plan if plan.is_lowered else lower(plan, policy), policy)
        return [
            (m.name, m.text, meaning.same(original) and self._is_kept(meaning.peaks))
            for m in plan_mutants(plan, policy)
            for meaning in [meaning_of(m.plan, policy)]
        ]

    def _is_kept(self, peaks: tuple[int, ...]) -> bool:
        """Whether no rank keeps more in flight than the schedule promises."""
        own = self.target.kind == "schedule"
        schedule = self.target.text if own else promised(self.target)
        if schedule is None:
            return True
        bound = SCHEDULES[schedule].in_flight_bound
        world, chunks = self.case.world, self.case.chunks or 1
        return all(peak <= bound(rank, world, chunks) for rank, peak in enumerate(peaks))


def _surveyed(
    target: Target, case: Case, options: CheckOptions, world: World
) -> list[tuple[Injection, str, bool]]:
    program = Program(_Survey(target, case), init_group=False, warm=target.takes_compiler)
    outcome = world.run(program, 1, timeout=options.timeout)
    if outcome.ending == "interrupted":
        raise KeyboardInterrupt
    (rank,) = outcome.ranks
    if not rank.finished:
        why = rank.error.message if rank.error is not None else f"it ended as {outcome.ending}"
        raise UsageError(f"the plan of {target.text} cannot be listed: {why}")
    listed: list[tuple[Injection, str, bool]] = rank.result
    return listed


@dataclass(frozen=True, slots=True)
class _Try:
    """Runs one mutant, in whichever process it is sent to."""

    target: Target

    def __call__(self, given: tuple[Mutant, _Base]) -> Tried:
        from harness.worlds.simulated.isolated import HostedWorld

        mutant, base = given
        seen: list[Outcome] = []
        try:
            with HostedWorld() as world:
                result = execute(self.target, mutant.case, world, LIMIT_S, observe=seen.append)
        except WorldError as error:
            return _tried(mutant, "unrun", (str(error),))
        return judged(mutant, result, seen[0] if seen else None, base.results, base.warned)


def judged(
    mutant: Mutant,
    result: CaseResult,
    outcome: Outcome | None,
    base: tuple[StepResult, ...],
    warned: frozenset[Place] = frozenset(),
) -> Tried:
    """Return the verdict on a mutant that has been run.

    Of a plan it is known what it means. A damaged call that nothing was found of, in any
    semantics, is equivalent when every number is what it was. What the target itself is ``warned``
    of does not count.
    """
    new = [finding for finding in result.findings if _place(finding) not in warned]
    codes = tuple(dict.fromkeys(finding.code for finding in new))
    if result.refused is not None:
        codes = ("refused",)
    if codes:
        return _tried(mutant, "alarm" if mutant.same else "caught", codes)
    same = mutant.same
    if same is None:
        same = outcome is not None and tuple(rank.result for rank in outcome.ranks) == base
    return _tried(mutant, "equivalent" if same else "missed", codes)


def _tried(mutant: Mutant, verdict: Verdict, codes: tuple[str, ...]) -> Tried:
    name = Injection.parse(mutant.case.mutant or "")
    return Tried(mutant.operator, name.rank, mutant.text, verdict, codes, str(mutant.case))


def _run(
    target: Target, mutants: list[tuple[Mutant, _Base]], options: CheckOptions
) -> Iterator[Tried]:
    def lost(given: tuple[Mutant, _Base]) -> Tried:
        return _tried(given[0], "caught", ("rank-death",))

    yield from spread(_Try(target), mutants, lost, warm=target.takes_compiler)
