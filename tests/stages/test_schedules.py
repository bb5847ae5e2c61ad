"""Every schedule really run: numbers, deadlock and memory, in all semantics and on real ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

import harness
from pipeline.actions import Action, Kind
from pipeline.lower import lower
from pipeline.plan import Plan, build_plan
from pipeline.schedules import RUNNABLE, SCHEDULES

SHAPES = {"world_size": (1, 2, 3, 4), "chunks": (1, 2, 4, 5, 8)}


@pytest.mark.parametrize("name", RUNNABLE)
def test_every_schedule_is_clean_and_bit_for_bit_the_monolith_s(name: str) -> None:
    report = harness.check(name, **SHAPES, cases=9, confirm=False, strict=True)  # type: ignore[arg-type]
    assert report.findings == []
    assert report.cases.clean == report.tried["bitwise"] == report.cases.run == 9
    assert report.semantics == ("gloo", "buffered", "nccl-eager", "nccl-lazy")


@pytest.mark.gloo
@pytest.mark.parametrize("name", ["interleaved", "zb-h2", "zbv", "dualpipe"])
def test_schedules_are_clean_on_real_ranks(name: str) -> None:
    report = harness.check(name, backend="gloo", world_size=2, chunks=4, cases=2)
    assert report.findings == []
    assert report.tried["bitwise"] == 2


def test_shapes_that_a_schedule_refuses_are_not_drawn_unless_asked_for() -> None:
    report = harness.check("dualpipe", cases=6, confirm=False)
    assert report.cases.refused == 0
    assert set(report.tried["world"]) <= {2, 4, 6}
    report = harness.check("dualpipe", world_size=3, chunks=8, cases=2, confirm=False)
    assert report.outcome == "error"
    assert "two directions meet in the middle of an even world: got world 3" in str(report)


def broken(name: str, world: int, chunks: int, *, drop: Kind) -> Plan:
    """Return a schedule's plan without the last action of a kind on rank 0."""
    plan = build_plan(name, world, chunks)
    row = list(plan.rows[0])
    del row[max(at for at, action in enumerate(row) if action.kind is drop)]
    return Plan(plan.schedule, world, chunks, (tuple(row), *plan.rows[1:]), plan.placement)


@pytest.mark.parametrize("form", ["compute", "lowered"])
def test_a_plan_in_a_csv_file_is_checked_at_its_one_shape(tmp_path: Path, form: str) -> None:
    plan = build_plan("zbv", 2, 4)
    file = tmp_path / "mine.csv"
    file.write_text((plan if form == "compute" else lower(plan)).to_csv())
    report = harness.check(str(file), cases=4, confirm=False)
    assert report.findings == []
    assert (report.tried["world"], report.tried["chunks"]) == ([2], [4])
    assert report.tried["bitwise"] == report.cases.run == 4


def test_a_damaged_plan_in_a_csv_file_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(broken("zb-h1", 2, 4, drop=Kind.W).to_csv())
    (finding,) = harness.check(str(file), cases=2, confirm=False).findings
    assert finding.code == "plan-invalid"
    assert "0W3 is missing: 0I3 is half of a backward" in finding.message
    assert (finding.operations[0].file, finding.operations[0].line) == (str(file), 1)


def test_a_plan_of_one_s_own_may_split_backwards_and_overlap_pairs() -> None:
    def plan(rank, world_size, chunks):  # type: ignore[no-untyped-def]
        for k in range(chunks):
            if k:
                yield Action.overlap(Action(rank, Kind.F, k), Action(rank, Kind.B, k - 1))
            else:
                yield f"{rank}F0"
        yield f"{rank}I{chunks - 1}"
        yield f"{rank}W{chunks - 1}"

    report = harness.check(plan, world_size=(1,), chunks=(1, 3, 4), cases=5, confirm=False)
    assert report.findings == []
    assert report.tried["bitwise"] == 5


def test_more_activations_than_a_schedule_promises_are_told(tmp_path: Path) -> None:
    """All forwards first is gpipe's way: 1f1b's promise does not allow for it."""
    file = tmp_path / "mine.py"
    file.write_text(
        "def plan(rank, world_size, chunks):\n"
        "    stages = (rank, 2 * world_size - 1 - rank)\n"
        "    for kind in 'FIW':\n"
        "        for stage in stages if kind == 'F' else stages[::-1]:\n"
        "            for k in range(chunks):\n"
        "                yield f'{stage}{kind}{k}'\n\n"
        "plan.promises = 'zbv'\n"
    )
    (finding,) = harness.check(
        f"{file}:plan", world_size=2, chunks=8, cases=1, confirm=False
    ).findings
    assert finding.code == "memory-bound"
    bound = SCHEDULES["zbv"].in_flight_bound(0, 2, 8)
    assert f"rank 0 has 16 where {bound} are allowed" in finding.message
