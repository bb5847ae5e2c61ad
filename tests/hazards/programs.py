"""Scripts written by hand or drawn at random.

``scripts(["S1 R1", "R0 S0"])``: rank 0 sends to 1, then receives from it. A capital is a call that
waits, a small letter one that only posts; ``w0`` waits for what was posted as number 0; ``C`` and
``c`` are an all_reduce. ``s1+r1`` is one batch, of which ``w0`` waits for the first.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from harness.hazards.scripts import Await, Post, Script

KINDS = {"s": "send", "r": "recv", "c": "all_reduce"}


def scripts(rows: Sequence[str], sizes: int = 8) -> list[Script]:
    members = tuple(range(len(rows)))
    return [_script(row.split(), members, sizes) for row in rows]


def _script(words: Sequence[str], members: tuple[int, ...], size: int) -> Script:
    script: Script = []
    posted = 0
    for word in words:
        if word[0] == "w":
            script.append(Await(int(word[1:])))
            continue
        parts = word.split("+")
        batch = posted if len(parts) > 1 else None
        first = posted
        for number, part in enumerate(parts):
            script.append(
                Post(
                    what=None,
                    kind=KINDS[part[0].lower()],
                    group="0",
                    members=members,
                    peer=int(part[1:]) if part[1:] else None,
                    size=size,
                    batch=batch,
                    closes=number == len(parts) - 1,
                )
            )
            posted += 1
        script += [Await(first + n) for n, part in enumerate(parts) if part[0].isupper()]
    return script


@st.composite
def drawn(draw: st.DrawFn, *, collectives_only: bool = False) -> list[Script]:
    """Mostly right programs: both ends of every message; then neighbours change places."""
    world = draw(st.integers(2, 4))
    rows: list[list[str]] = [[] for _ in range(world)]
    for _ in range(draw(st.integers(1, 10))):
        if collectives_only or draw(st.integers(0, 5)) == 0:
            for row in rows:
                row.append(draw(st.sampled_from("cC")))
            continue
        source, target = draw(st.permutations(range(world)))[:2]
        rows[source].append(f"{draw(st.sampled_from('sS'))}{target}")
        rows[target].append(f"{draw(st.sampled_from('rR'))}{source}")
    if not collectives_only:
        for row in rows:
            _spoil(draw, row)
    return scripts([" ".join([*row, *_waits(row)]) for row in rows], draw(st.integers(1, 9)))


def _spoil(draw: st.DrawFn, row: list[str]) -> None:
    for at in draw(st.lists(st.integers(0, max(len(row) - 2, 0)), max_size=3)):
        row[at : at + 2] = reversed(row[at : at + 2])
    for at in draw(st.lists(st.integers(0, max(len(row) - 2, 0)), max_size=2)):
        pair = row[at : at + 2]
        if len(pair) == 2 and not any("+" in word or word[0] in "cC" for word in pair):
            row[at : at + 2] = ["+".join(pair)]


def _waits(row: Sequence[str]) -> list[str]:
    return [f"w{number}" for number in range(sum(word.count("+") + 1 for word in row))]
