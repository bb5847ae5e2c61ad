"""What a valid plan does under each semantics, without running it: verdicts and findings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from harness.findings import Finding
from harness.hazards import explain
from harness.hazards.check import condition_text
from harness.hazards.messages import Messages
from harness.hazards.queues import Semantics
from harness.hazards.stalls import BUFFERED, GLOO, Condition, find_stalls
from harness.semantics import NCCL
from pipeline.lower import Policy, default_policy, get_policy, lower
from pipeline.plan import Plan


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Whether a plan comes to its end; nothing that it names was left out."""

    policy: str
    """The comm policy that it was given its sends and receives by, or is run under."""
    semantics: dict[str, str]
    """``gloo``, ``nccl-eager capacity=0``, …: ``finishes`` or ``hangs``."""
    findings: tuple[Finding, ...]

    @property
    def hangs(self) -> list[str]:
        """The semantics under which it hangs."""
        return [name for name, verdict in self.semantics.items() if verdict == "hangs"]


def judge(plan: Plan, policy: Policy | str | None = None) -> Verdicts:
    """Go through a valid plan under each semantics, in time linear in its length.

    A compute-only plan is given its sends and receives by ``policy``, by default the one that
    any plan can be run under.
    """
    policy = get_policy(policy or default_policy(plan))
    messages = Messages(plan if plan.is_lowered else lower(plan, policy), policy)
    stalls = find_stalls(messages)
    order = sorted(stalls, key=lambda each: (each[0].startswith("nccl"), each))
    told = {name_of(each): "hangs" if stalls[each] else "finishes" for each in order}
    findings: list[Finding] = []
    if messages.swap is not None:
        findings.append(explain.swapped(messages, messages.swap))
    if (stall := stalls[GLOO]) is not None:
        findings.append(explain.stuck(messages, stall, told, needs_buffering=not stalls[BUFFERED]))
    elif any(stalls.values()):
        findings += explain.hazards(messages, stalls, told)
    return Verdicts(policy.name, told, tuple(findings))


def name_of(condition: Condition) -> str:
    """Name a semantics, and its capacity where it has one."""
    semantics, capacity = condition
    if semantics not in NCCL:
        return semantics
    return condition_text(cast("Semantics", semantics), capacity)
