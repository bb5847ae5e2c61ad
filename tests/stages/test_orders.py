"""Right plans in orders that no built-in schedule has: no false alarm, whatever the order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import harness
from harness.case import UsageError

Plan = Callable[[int, int, int], Iterator[str]]


def inputs_backwards(rank: int, world_size: int, chunks: int) -> Iterator[str]:
    yield from (f"{rank}F{k}" for k in range(chunks))
    yield from (f"{rank}I{k}" for k in reversed(range(chunks)))
    yield from (f"{rank}W{k}" for k in range(chunks))


def whole_and_split(rank: int, world_size: int, chunks: int) -> Iterator[str]:
    yield from (f"{rank}F{k}" for k in range(chunks))
    for k in range(chunks):
        if (k + rank) % 2:
            yield f"{rank}B{k}"
        else:
            yield f"{rank}I{k}"
            yield f"{rank}W{k}"


def weights_far_behind(rank: int, world_size: int, chunks: int) -> Iterator[str]:
    for k in range(chunks):
        yield f"{rank}F{k}"
        if rank == world_size - 1:
            yield f"{rank}I{k}"
    if rank < world_size - 1:
        yield from (f"{rank}I{k}" for k in range(chunks))
    yield from (f"{rank}W{k}" for k in reversed(range(chunks)))


def eight_stages(rank: int, world_size: int, chunks: int) -> Iterator[str]:
    """As many for every world size, so that ranks may hold more or fewer."""
    mine = [stage for stage in range(8) if stage * world_size // 8 == rank]
    for k in range(chunks):
        yield from (f"{stage}F{k}" for stage in mine)
    for k in range(chunks):
        yield from (f"{stage}B{k}" for stage in reversed(mine))


@pytest.mark.parametrize(
    "plan", [inputs_backwards, whole_and_split, weights_far_behind, eight_stages]
)
@pytest.mark.parametrize("world", [1, 3])
def test_a_right_plan_has_no_finding(plan: Plan, world: int) -> None:
    report = harness.check(
        plan, world_size=world, chunks=(1, 4, 5), cases=5, confirm=False, strict=True
    )
    assert report.findings == []
    assert report.cases.refused == 0
    assert report.tried["bitwise"] == 5


def test_a_step_s_placement_may_be_another_for_each_world_size(tmp_path: Path) -> None:
    """Always eight stages; and none for a world of 3, which it refuses."""
    file = tmp_path / "mine.py"
    file.write_text(
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        "from tests.stages.steps import loop\n\n"
        "def step(stages, comms, batch, chunks):\n"
        "    return loop(stages, comms, batch, chunks)\n\n"
        "def placement(world):\n"
        "    if world == 3:\n"
        "        raise ValueError('eight stages do not go into 3')\n"
        "    return [stage * world // 8 for stage in range(8)]\n\n"
        "step.placement = placement\n"
    )
    report = harness.check(
        f"{file}:step", world_size=(1, 2, 3, 4), chunks=2, cases=8, confirm=False
    )
    assert report.findings == []
    (refusal,) = report.refusals
    assert "eight stages do not go into 3" in refusal
    assert report.tried["world"] == [1, 2, 4]


def test_a_placement_s_own_mistake_refuses_no_shape(tmp_path: Path) -> None:
    """It has one for the world sizes that are asked for beforehand, and not for what is run."""
    file = tmp_path / "mine.py"
    file.write_text(
        "def step(stages, comms, batch, chunks):\n    pass\n\n"
        "def placement(world):\n"
        "    return [[0].index(9)] if world == 9 else list(range(world)) * 2\n\n"
        "step.placement = placement\n"
    )
    with pytest.raises(UsageError, match=r"placement\(9\) raised ValueError: 9 is not in list"):
        harness.check(f"{file}:step", world_size=9, chunks=1, cases=1, confirm=False)


@pytest.mark.parametrize(
    ("placement", "said"),
    [
        ("lambda world: iter(int, 1)", "has more than 64 stages for each rank"),
        ("lambda world: None", "returned None; expected the rank of each stage"),
        ("lambda world: [True]", "has True; the ranks are 0.."),
        ("lambda world: 1 / 0", "raised ZeroDivisionError"),
    ],
)
def test_a_placement_that_is_none_is_refused_in_one_line(
    tmp_path: Path, placement: str, said: str
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        f"def step(stages, comms, batch, chunks):\n    pass\n\nstep.placement = {placement}\n"
    )
    with pytest.raises(UsageError, match=said):
        harness.check(f"{file}:step", world_size=1, cases=1)
