"""Mutants of a schedule: damaged in every way of the catalogue, to see what is caught.

:mod:`.plans` damages the rows of a plan, :mod:`.calls` the calls and computations of a step as it
runs. :mod:`.meaning` says, without running it and without any checker, whether a damaged plan
still does what it is to do; :mod:`.campaign` runs the mutants.
"""

from __future__ import annotations

from harness.case import Case, UsageError


def require_known(case: Case) -> None:
    """Refuse a case whose mutant is none of its target's, as far as can be told without running it.

    UsageError says what there is.
    """
    from harness.injection import Injection
    from harness.mutate.calls import OPERATORS
    from harness.mutate.plans import PLAN_OPERATORS, mutated
    from pipeline.lower import default_policy, get_policy
    from pipeline.plan import build_plan
    from pipeline.schedules import SCHEDULES

    name = Injection.parse(case.mutant or "")
    known = (*PLAN_OPERATORS, *OPERATORS)
    if name.operator not in known:
        raise UsageError(f"mutant={name}: the operators are {', '.join(known)}")
    if name.rank >= case.world:
        raise UsageError(f"mutant={name}: the ranks are 0 to {case.world - 1}")
    if name.operator == "wrong-peer" and case.world < 3:
        raise UsageError(f"mutant={name}: in a world of {case.world} there is no other peer")
    if name.operator in PLAN_OPERATORS and case.target in SCHEDULES and case.chunks is not None:
        plan = build_plan(case.target, case.world, case.chunks)
        mutated(plan, get_policy(case.policy or default_policy(plan)), name)
