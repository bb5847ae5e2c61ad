"""Random communication programs, right and wrong, run on simulated and on real ranks.

A program is a list of events that all take part in in one order, which can come to no deadlock,
whatever is posted early and waited for late. A wrong one has lost, exchanged or changed something.

What depends on the moment on real ranks is found by the simulator itself: where several of its
interleavings come to different ends, gloo's must be among them. Left out altogether, for it depends
on the machine's clock: deaths (``programs/failures.py`` has them), waits with a timeout, polls of a
request. The buffer of a receive that nobody waited for is not looked at. Where gloo aborts a rank
whose buffer is too small, what the others had by then is left to chance: only who may be aborted
is compared.

``python -m tests.conformance.random_programs --count 2000 --seed 0 --jobs 2`` runs so many.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import hypothesis
from hypothesis import strategies as st

from harness.api import close_worlds, shared_world
from tests.conformance.interpreter import Action, Script
from tests.conformance.view import View, run, view

COLLECTIVES = (
    "barrier", "all_reduce", "broadcast", "reduce", "gather", "scatter", "all_gather",
    "reduce_scatter", "all_to_all", "all_gather_object", "monitored_barrier",
)  # fmt: skip
ALWAYS_WAIT = ("all_gather_object", "monitored_barrier")
ROOTED = ("broadcast", "reduce", "gather", "scatter")
TYPES = ("float32", "float32", "float64", "int64", "bfloat16")
OPS = ("SUM", "SUM", "MAX", "PRODUCT")
SEEDS = 4  # interleavings of each program, besides the usual one
TRIES = 4  # of a program on gloo
PATIENCE_S = 8.0  # a hang that cannot be proved ends by this
MORE_SEEDS = 120  # before gloo's outcome is said to be none of the simulator's
Ranks = list[list[Action]]


@st.composite
def scripts(draw: st.DrawFn, *, right: bool = False) -> Script:
    """A program of 2 to 4 ranks; about every third one is right, or all are."""
    world = draw(st.integers(2, 4))
    groups = _groups(draw, world)
    ranks: Ranks = [[] for _ in range(world)]
    for name in range(1, draw(st.integers(2, 9)) + 1):
        _event(draw, name, ranks, groups)
    if right or draw(st.sampled_from([True, False, False])):
        return Script(tuple(map(tuple, ranks)), groups, right=True)
    for _ in range(draw(st.sampled_from([1, 1, 2, 3]))):
        _spoil(draw, ranks)
    return Script(tuple(map(tuple, ranks)), groups)


def _groups(draw: st.DrawFn, world: int) -> tuple[tuple[int, ...], ...]:
    whole = tuple(range(world))
    pair = tuple(sorted(draw(st.permutations(whole))[:2]))
    return draw(st.sampled_from([(), (), (pair,), (whole,), (pair, whole)]))


def _event(draw: st.DrawFn, name: int, ranks: Ranks, groups: tuple[tuple[int, ...], ...]) -> None:
    group = draw(st.sampled_from([None, None, *range(len(groups))]))
    members = tuple(range(len(ranks))) if group is None else groups[group]
    alike: dict[str, Any] = {
        "name": name,
        "group": group,
        "count": draw(st.sampled_from([0, 1, 2, 2, 3, 5])),
        "dtype": draw(st.sampled_from(TYPES)),
    }
    what = draw(st.sampled_from(["message"] * 6 + ["collective"] * 4 + ["batch", "any", "objects"]))
    source, target = draw(st.permutations(members))[:2]
    if what == "collective":
        _collective(draw, ranks, members, alike)
    elif what == "batch" and group is None:
        _batch(ranks, source, target, alike)
    elif what == "any":
        _from_any(ranks, members, target, alike)
    elif what == "objects":
        ranks[source].append(Action("send_objects", peer=target, **alike))
        ranks[target].append(Action("recv_objects", peer=source, **alike))
    else:
        tag = draw(st.integers(0, 2))
        for rank, do, peer in ((source, "send", target), (target, "recv", source)):
            early = draw(st.booleans())
            ranks[rank].append(Action(f"i{do}" if early else do, peer=peer, tag=tag, **alike))
            if early:
                _later(draw, ranks[rank], name)


def _later(draw: st.DrawFn, actions: list[Action], name: int) -> None:
    """Let a wait stand where it does: what is added next may come before it."""
    last = draw(st.integers(0, 3))
    actions.append(Action("wait", name))
    for _ in range(last):
        if len(actions) >= 2 and actions[-2].do == "wait":
            actions[-1], actions[-2] = actions[-2], actions[-1]


def _collective(
    draw: st.DrawFn, ranks: Ranks, members: tuple[int, ...], alike: dict[str, Any]
) -> None:
    do = draw(st.sampled_from(COLLECTIVES))
    root = draw(st.sampled_from(members)) if do in ROOTED else None
    op = draw(st.sampled_from(OPS))
    for rank in members:
        waits = do in ALWAYS_WAIT or draw(st.booleans())
        ranks[rank].append(Action(do, peer=root, op=op, waits=waits, **alike))
        if not waits:
            ranks[rank].append(Action("wait", alike["name"]))


def _batch(ranks: Ranks, one: int, other: int, alike: dict[str, Any]) -> None:
    """Both send and receive, in one call each."""
    for rank, peer in ((one, other), (other, one)):
        parts = tuple(Action(do, peer=peer, tag=1, **alike) for do in ("isend", "irecv"))
        ranks[rank].append(Action("batch", alike["name"], parts=parts))


def _from_any(ranks: Ranks, members: tuple[int, ...], target: int, alike: dict[str, Any]) -> None:
    """All the others send to one, which takes what comes first, under a tag of its own."""
    tag = 10 + alike["name"]
    alike["count"] = max(alike["count"], 1)  # gloo takes no empty one from any source
    for rank in members:
        if rank != target:
            ranks[rank].append(Action("send", peer=target, tag=tag, **alike))
            ranks[target].append(Action("from_any", tag=tag, **alike))


def _spoil(draw: st.DrawFn, ranks: Ranks) -> None:
    """Make one thing wrong, or at least other."""
    rank = draw(st.sampled_from([r for r, actions in enumerate(ranks) if actions] or [0]))
    actions = ranks[rank]
    if not actions:
        return
    place = draw(st.integers(0, len(actions) - 1))
    action = actions[place]
    how = draw(
        st.sampled_from(
            ["exchange"] * 4 + ["leave out"] * 3
            + ["tag", "peer", "count", "dtype", "op", "drop", "change", "raise", "again"]
        )
    )  # fmt: skip
    match how:
        case "exchange":
            if place + 1 < len(actions):
                actions[place : place + 2] = actions[place : place + 2][::-1]
        case "leave out":
            del actions[place]
        case "again":
            if action.do in ("send", "recv", "barrier", "all_reduce"):
                actions.insert(place, action)
        case "tag":
            actions[place] = replace(action, tag=action.tag + 1)
        case "peer":
            if action.peer is not None and action.group is None:
                others = [r for r in range(len(ranks)) if r not in (rank, action.peer)]
                if others:
                    actions[place] = replace(action, peer=draw(st.sampled_from(others)))
        case "count":
            actions[place] = replace(action, count=action.count + draw(st.sampled_from([1, 3])))
        case "dtype":
            actions[place] = replace(action, dtype=draw(st.sampled_from(TYPES)))
        case "op":
            actions[place] = replace(action, op=draw(st.sampled_from(OPS)))
        case "raise":
            actions.insert(place, Action("raise"))
        case _:  # drop a request, or change its tensor, before it is waited for
            if action.do in ("isend", "irecv"):
                actions.insert(place + 1, Action(how, action.name))


@dataclass
class Verdict:
    """What the two worlds said of one program."""

    script: Script
    gloo: View
    simulated: list[View]  # those that differ, the usual interleaving's first
    agree: bool
    depends: bool = field(init=False)

    def __post_init__(self) -> None:
        self.depends = len(self.simulated) > 1

    @property
    def faults(self) -> list[str]:
        """Return what must not be: errors found in a program that is right."""
        return [f[0] for v in (self.gloo, *self.simulated) for f in v.findings if f[1] == "error"]

    @property
    def holds(self) -> bool:
        """Whether the worlds agree, and no error was found in what is right."""
        return self.agree and not (self.script.right and (self.faults or self.depends))

    def __str__(self) -> str:
        lines = [f"right={self.script.right} groups={self.script.groups}"]
        lines += [f"  rank {r}: {list(a)}" for r, a in enumerate(self.script.ranks)]
        lines += [f"gloo: {self.gloo}", *(f"sim:  {one}" for one in self.simulated)]
        return "\n".join(lines)


def compare(script: Script) -> Verdict:
    """Run a program on both worlds."""
    sim, size = shared_world("sim"), len(script.ranks)

    def simulated(seed: int) -> View:
        how = f"random:{seed}" if seed else ""
        return view(run(sim, script, size, interleaving=how, timeout=PATIENCE_S))

    seen = list(dict.fromkeys(simulated(seed) for seed in range(SEEDS + 1)))
    real = _on_gloo(script, seen)
    if len(seen) == 1 and real.agrees(seen[0]):
        return Verdict(script, real, seen, agree=True)
    for seed in range(SEEDS + 1, MORE_SEEDS):
        if _is_among(real, seen):
            break
        if (one := simulated(seed)) not in seen:
            seen.append(one)
    return Verdict(script, real, seen, _is_among(real, seen))


def _on_gloo(script: Script, seen: list[View]) -> View:
    """Return what gloo says; once more where a busy machine kept a rank from being seen."""
    for _ in range(TRIES):
        real = view(run(shared_world("gloo"), script, len(script.ranks), timeout=PATIENCE_S))
        if not real.cut_short or _is_among(real, seen):
            break
    return real


def _is_among(real: View, seen: list[View]) -> bool:
    return any(real.agrees(one, loose=True) for one in seen) or _may_abort(real, seen)


def _may_abort(real: View, seen: list[View]) -> bool:
    """Whether a rank was aborted, one that some simulated run aborted too, or said it would be.

    Or none yet: gloo's case is over as soon as other ranks are known to be stuck.
    """
    aborted = [one for one in seen if one.died]
    if real.died:
        return real.died <= set().union(*(one.died | one.aborting for one in seen))
    return real.ending == "stuck" and any(real.codes & one.codes for one in aborted)


def campaign(count: int, seed: int) -> Counter[str]:
    """Run so many programs; print each disagreement, and return how many there were of what."""
    found: Counter[str] = Counter()

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(scripts())
    def each(script: Script) -> None:
        if found["programs"] >= count:
            return
        verdict = compare(script)
        found["programs"] += 1
        found["right by construction"] += script.right
        found[f"ending {verdict.gloo.ending}"] += 1
        found["depend on timing"] += verdict.depends
        found.update({f"finding {code}": 1 for code in {f[0] for f in verdict.gloo.findings}})
        found["disagreements"] += not verdict.holds
        if found["programs"] % 100 == 0:
            print(
                f"{found['programs']} programs, {found['disagreements']} disagreements", flush=True
            )
        if not verdict.holds:
            print(f"DISAGREEMENT\n{verdict}\n", flush=True)

    each()
    return found


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    started = time.monotonic()
    if given.jobs > 1:
        return _in_parallel(given.count, given.seed, given.jobs)
    found = campaign(given.count, given.seed)
    close_worlds()
    taken = time.monotonic() - started
    for what, how_often in sorted(found.items()):
        print(f"{how_often:6d} {what}")
    print(f"{taken:.0f} s, {found['programs'] / taken:.1f} programs a second", flush=True)
    return int(found["disagreements"] > 0)


def _in_parallel(count: int, seed: int, jobs: int) -> int:
    each = [count // jobs + (job < count % jobs) for job in range(jobs)]
    processes = [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.conformance.random_programs",
                "--count",
                str(share),
                "--seed",
                str(seed * 1000 + job),
            ]
        )
        for job, share in enumerate(each)
    ]
    return max(process.wait() for process in processes)


if __name__ == "__main__":
    sys.exit(main())
