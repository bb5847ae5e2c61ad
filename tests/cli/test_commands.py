"""What the commands do when all is well, on ranks that are calls in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.targets.entry import ProgramEntry
from tests.cli.fake_world import DEADLOCK, FakeCampaign, FakeWorld

Harness = Callable[..., Any]


def test_a_clean_check_exits_0_and_says_what_was_tried(harness: Harness) -> None:
    ended = harness("check", "1f1b")
    assert ended.status == 0
    assert ended.stderr == ""
    assert ended.stdout == (
        "1f1b: no finding in 4 cases on gloo, 1.2 s\n"
        "tried: worlds 1..3; chunks 1,2,4; seed 0\n"
        "not proved: shapes and timings not tried, and NCCL's ordering and capacity; "
        "another --seed draws others\n"
    )


def test_a_finding_exits_1(harness: Harness, campaign: FakeCampaign) -> None:
    campaign.findings = [DEADLOCK]
    ended = harness("check", "1f1b")
    assert ended.status == 1
    assert ended.stdout.startswith("error[deadlock]: ranks 0 and 1 wait for each other\n")


def test_a_warning_exits_1_only_when_strict(harness: Harness, campaign: FakeCampaign) -> None:
    campaign.findings = [DEADLOCK.with_(severity="warning", code="unawaited-request")]
    assert harness("check", "1f1b").status == 0
    assert harness("check", "1f1b", "--strict").status == 1


def test_the_options_of_a_check_reach_the_campaign(
    harness: Harness, campaign: FakeCampaign
) -> None:
    numbers = {"-n": "2..4,6", "-c": "3", "--cases": "9", "--seed": "5", "--seconds": "30"}
    others = {"--timeout": "1.5", "--policy": "isend"}
    harness("check", "gpipe", *(word for pair in (numbers | others).items() for word in pair))
    (limits,) = campaign.limits
    assert limits.worlds == (2, 3, 4, 6)
    assert limits.chunks == (3,)
    assert (limits.cases, limits.seed, limits.seconds, limits.timeout) == (9, 5, 30.0, 1.5)
    assert limits.policy == "isend"


def test_a_check_by_time_alone_has_no_limit_on_its_cases(
    harness: Harness, campaign: FakeCampaign
) -> None:
    harness("check", "gpipe", "--seconds", "5")
    assert campaign.limits[0].cases >= 1_000_000


def test_several_targets_are_told_one_after_another(harness: Harness) -> None:
    ended = harness("check", "naive", "gpipe")
    assert ended.stdout.index("naive: no finding") < ended.stdout.index("gpipe: no finding")


def test_json_of_one_target_is_its_report_and_of_several_a_list(harness: Harness) -> None:
    one = json.loads(harness("check", "naive", "--format", "json").stdout)
    assert (one["schema"], one["target"], one["outcome"]) == (1, "naive", "clean")
    two = json.loads(harness("check", "naive", "gpipe", "--format", "json").stdout)
    assert two["schema"] == 1
    assert [report["target"] for report in two["reports"]] == ["naive", "gpipe"]


def test_quiet_prints_findings_only(harness: Harness, campaign: FakeCampaign) -> None:
    assert harness("check", "1f1b", "-q").stdout == ""
    campaign.findings = [DEADLOCK]
    assert harness("check", "1f1b", "-q").stdout.startswith("error[deadlock]")


def test_an_interrupted_check_exits_2_without_and_1_with_findings(
    harness: Harness, campaign: FakeCampaign
) -> None:
    campaign.interrupted = True
    ended = harness("check", "naive", "gpipe")
    assert ended.status == 2
    assert ended.stderr == "error: interrupted after 4 cases of naive\n"
    assert ended.stdout.startswith("naive: no finding so far in 4 cases on gloo, 1.2 s, interrup")
    assert [target.text for target in campaign.targets] == ["naive"]
    campaign.findings = [DEADLOCK]
    assert harness("check", "naive").status == 1


def test_an_interrupt_outside_of_a_campaign_is_one_line(
    harness: Harness, world: FakeWorld, folder: Path
) -> None:
    world.interrupt = True
    ended = harness("check", "mine.py:step")
    assert ended.status == 2
    assert ended.stderr == "error: interrupted before the first case ended\n"


@pytest.mark.usefixtures("folder")
def test_run_echoes_the_ranks_on_stderr_and_reports_on_stdout(harness: Harness) -> None:
    ended = harness("run", "mine.py:program", "-n", "2")
    assert ended.status == 0
    assert ended.stderr == "rank 0 | hello\nrank 1 | hello\n"
    assert "mine.py:program: no finding in this run on sim" in ended.stdout
    assert harness("run", "mine.py:program", "-n", "2", "-q").stderr == ""


@pytest.mark.usefixtures("folder")
def test_run_gives_a_script_its_arguments_and_fresh_ranks(
    harness: Harness, world: FakeWorld
) -> None:
    assert harness("run", "script.py", "-n", "1", "--", "--lr", "0.1", "-n", "7").status == 0
    (program,) = world.programs
    assert isinstance(program.entry, ProgramEntry)
    assert program.entry.args == ("--lr", "0.1", "-n", "7")
    assert program.fresh
    assert not program.init_group


@pytest.mark.usefixtures("folder")
def test_replay_takes_the_case_quoted_or_as_words(harness: Harness, campaign: FakeCampaign) -> None:
    campaign.findings = [DEADLOCK]
    quoted = harness("replay", "mine.py:step world=2 chunks=2 seed=3")
    words = harness("replay", "mine.py:step", "world=2", "chunks=2", "seed=3")
    assert quoted.status == words.status == 1
    assert [target.kind for target in campaign.targets] == ["step", "step"]
    assert "error[deadlock]" in words.stdout


@pytest.mark.usefixtures("folder")
def test_replay_of_a_program_keeps_arguments_with_spaces(
    harness: Harness, world: FakeWorld
) -> None:
    ended = harness("replay", "mine.py:program", "world=2", "args=--name 'a b'")
    assert ended.status == 0
    assert "mine.py:program: no finding in 1 case on sim" in ended.stdout


def test_explain_prints_a_page_and_the_list(harness: Harness) -> None:
    page = harness("explain", "dropped-request").stdout
    assert page.startswith("dropped-request (error)\na request was garbage-collected")
    for title in ("What it means", "Why it is bad", "Example", "Instead", "How to fix it"):
        assert f"\n{title}\n  " in page
    listing = harness("explain").stdout
    assert "collective-skew      the same collective, paired across" in listing
    assert "(warning)" in listing
