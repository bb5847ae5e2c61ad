"""NCCL's semantics, live and from the trace of a run: the same program, the same verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

import harness
from harness.findings import Finding
from harness.worlds import Simulated, World
from tests.programs import correct, messages
from tests.programs.nccl import ordering
from tests.simulated.steps import found_in
from tests.worlds.call import Function
from tests.worlds.running import run

CRISS_CROSS = f"{ordering.__file__}:criss_cross"
ROOM = float("inf")


def ending(world: World, function: Function, semantics: str, capacity: float) -> str:
    how = Simulated(semantics=semantics, capacity=capacity)
    return run(world, function, simulated=how).ending


@pytest.mark.parametrize("semantics", ["nccl-eager", "nccl-lazy"])
def test_both_send_first_finishes_where_there_is_room(sim: World, semantics: str) -> None:
    assert ending(sim, messages.both_send_first, semantics, 0) == "stuck"
    assert ending(sim, messages.both_send_first, semantics, 15) == "stuck"
    assert ending(sim, messages.both_send_first, semantics, 16) == "finished"
    assert ending(sim, messages.both_send_first, semantics, ROOM) == "finished"


def test_both_send_first_under_gloo_and_with_buffered_sends(sim: World) -> None:
    assert ending(sim, messages.both_send_first, "gloo", 0) == "stuck"
    assert ending(sim, messages.both_send_first, "buffered", 0) == "finished"


@pytest.mark.parametrize("semantics", ["gloo", "buffered", "nccl-eager", "nccl-lazy"])
@pytest.mark.parametrize("function", [correct.many_small_messages, correct.flat_into_shaped])
def test_right_programs_finish_under_all(sim: World, semantics: str, function: Function) -> None:
    outcome = run(sim, function, simulated=Simulated(semantics=semantics))
    assert outcome.ending == "finished"


def hazard(report: harness.Report) -> Finding:
    (finding,) = report.findings
    assert finding.code == "nccl-hazard"
    return finding


@pytest.mark.parametrize("semantics", ["nccl-eager", "nccl-lazy"])
def test_ignored_tags_are_told_under_one_of_nccls_semantics_alone(semantics: str) -> None:
    target = f"{ordering.__file__}:tags_swapped"
    finding = hazard(harness.run(target, 2, confirm=False, semantics=semantics))
    assert finding.cause == "tags-ignored"
    assert semantics in finding.case
    assert hazard(harness.replay(finding.case)).cause == "tags-ignored"


@pytest.mark.parametrize("semantics", ["nccl-eager", "nccl-lazy"])
def test_what_hangs_on_gloo_by_its_tags_mixes_messages_up_on_nccl(semantics: str) -> None:
    """Two blocking sends, received in the other order."""
    target = f"{messages.__file__}:tags_in_another_order"
    finding = hazard(harness.run(target, 2, semantics=semantics))
    assert (finding.cause, finding.severity) == ("tags-ignored", "error")
    assert (
        "its recv with tag 2 comes first, and so gets what was sent with tag 1" in finding.message
    )
    assert finding.confirmed_on == ("sim",)
    (hang,) = harness.run(target, 2, confirm=False, semantics="gloo").findings
    assert hang.code == "deadlock"


def test_what_hangs_only_under_nccl_is_a_warning_of_a_run() -> None:
    report = harness.run(CRISS_CROSS, 2, confirm=False)
    assert (hazard(report).severity, report.exit_code) == ("warning", 0)
    assert "nccl-eager" in hazard(report).message
    assert harness.run(CRISS_CROSS, 2, confirm=False, strict=True).exit_code == 1
    assert harness.run(CRISS_CROSS, 2, confirm=False, semantics="gloo").findings == []


def test_it_is_an_error_of_a_check(tmp_path: Path) -> None:
    use = (
        "a, b = torch.ones(4), torch.empty(4); w = dist.isend(a, 1 - comms.rank); "
        "dist.recv(b, 1 - comms.rank); w.wait()"
    )
    assert found_in(tmp_path, "", use, None) == {("nccl-hazard", "error")}
    assert found_in(tmp_path, "", use, "gloo") == set()


@pytest.mark.parametrize(
    ("semantics", "capacity"), [(None, None), ("nccl-eager", 0), ("nccl-lazy", 0), ("nccl-lazy", 8)]
)
def test_its_case_line_shows_it_again(semantics: str | None, capacity: object) -> None:
    found = hazard(
        harness.run(CRISS_CROSS, 2, confirm=False, semantics=semantics, capacity=capacity)
    )
    assert f"semantics={semantics or 'nccl-'}" in str(found.case)
    again = hazard(harness.replay(str(found.case)))
    assert (again.message, str(again.case)) == (found.message, str(found.case))


def test_with_room_for_the_message_there_is_none() -> None:
    for capacity in ("inf", 4096):
        report = harness.run(
            CRISS_CROSS, 2, confirm=False, semantics="nccl-eager", capacity=capacity
        )
        assert report.findings == []


def test_live_and_by_trace_agree(sim: World) -> None:
    finding = hazard(harness.run(CRISS_CROSS, 2, confirm=False))
    by_trace = finding.details["semantics"]
    assert set(by_trace.values()) == {"hangs", "finishes"}
    for name, what in by_trace.items():
        semantics, _, capacity = name.partition(" capacity=")
        live = ending(sim, ordering.criss_cross, semantics, float(capacity))
        assert (live == "finished") == (what == "finishes"), name
