"""A case that is not the same when it is run again is found out, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest

import harness
from harness.findings import Finding
from harness.worlds import Simulated, World
from tests.programs import correct, simulated
from tests.simulated.steps import found_in
from tests.worlds.running import assert_clean, run


def only(report: harness.Report) -> Finding:
    (finding,) = report.findings
    return finding


@pytest.mark.parametrize(
    "function", [simulated.answers_whoever_comes_first, simulated.depends_on_a_poll]
)
def test_a_program_whose_operations_depend_on_the_order_has_a_warning(function: object) -> None:
    name = function.__name__  # type: ignore[attr-defined]
    report = harness.run(f"{simulated.__file__}:{name}", 3, semantics="gloo", confirm=False)
    finding = only(report)
    assert (finding.code, finding.severity) == ("nondeterminism", "warning")
    assert report.exit_code == 0
    assert "interleaving" in finding.message
    assert "any source" in finding.help
    assert "is_completed" in finding.help
    assert "(of this run)" in str(report)


def test_its_case_line_shows_it_again() -> None:
    target = f"{simulated.__file__}:answers_whoever_comes_first"
    found = only(harness.run(target, 3, semantics="gloo", confirm=False))
    again = only(harness.replay(str(found.case)))
    assert (again.code, again.ranks) == (found.code, found.ranks)


def test_state_that_is_kept_between_runs_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNT_FILE", str(tmp_path / "count"))
    report = harness.run(f"{simulated.__file__}:counts_its_runs", 2, confirm=False)
    assert only(report).code == "nondeterminism"


def test_what_is_printed_or_returned_is_the_program_s_own_business() -> None:
    report = harness.run(f"{simulated.__file__}:tells_the_time", 2, confirm=False)
    assert report.findings == []


@pytest.mark.parametrize(
    "function", [simulated.polls_and_returns_what_it_likes, simulated.polls_and_returns_numbers]
)
def test_what_no_order_decides_is_none_of_ours(function: object) -> None:
    name = function.__name__  # type: ignore[attr-defined]
    report = harness.run(f"{simulated.__file__}:{name}", 3, semantics="gloo", confirm=False)
    assert report.findings == []
    assert report.tried["runs"] > 2, "a poll leaves the order open"


def test_the_order_of_a_set_is_one_order_in_every_run_of_a_process(sim: World) -> None:
    assert_clean(run(sim, simulated.sends_in_the_order_of_a_set))
    outcomes = [
        run(sim, simulated.sends_in_the_order_of_a_set, simulated=Simulated(interleaving=name))
        for name in ("", "random:1")
    ]
    assert outcomes[0].notes["results"] == outcomes[1].notes["results"]


def test_messages_from_any_source_that_are_only_summed_are_right() -> None:
    file = correct.__file__
    assert harness.run(f"{file}:from_anyone", 3, semantics="gloo", confirm=False).findings == []


NOISE = "noise = random.SystemRandom()"
NUDGE = "total = total and total * (1 + noise.random() * 1e-13)"
ALONE = """for _ in range(noise.randrange(1, 50)):
        dist.new_group([comms.rank], use_local_synchronization=True).barrier().wait()"""


@pytest.mark.parametrize(("use", "severity"), [(NUDGE, "error"), (ALONE, "warning")])
def test_numbers_that_differ_are_an_error_in_a_check_and_operations_alone_a_warning(
    tmp_path: Path, use: str, severity: str
) -> None:
    assert found_in(tmp_path, NOISE, use) == {("nondeterminism", severity)}


LOG = """times = [None] * comms.world_size
dist.all_gather_object(times, "x" * noise.randrange(1, 50))"""


def test_objects_of_another_length_are_no_other_operations(tmp_path: Path) -> None:
    """As in a log of how long each rank took."""
    use = LOG.replace("\n", "\n    ")
    assert found_in(tmp_path, NOISE, use) == set()


def test_what_a_program_returns_counts_where_the_order_of_its_messages_is_open() -> None:
    name = "sums_in_the_order_of_arrival"
    report = harness.run(f"{simulated.__file__}:{name}", 3, semantics="gloo", confirm=False)
    finding = only(report)
    assert (finding.code, finding.severity) == ("nondeterminism", "warning")
    assert "it returned something else" in finding.message


@pytest.mark.parametrize(
    ("setup", "use"), [("", "pass"), (NOISE, "print(noise.random())"), (NOISE, "dist.barrier()")]
)
def test_numbers_that_nothing_follows_from_are_nobody_s_concern(
    tmp_path: Path, setup: str, use: str
) -> None:
    assert found_in(tmp_path, setup, use) == set()
