"""What ranks print is kept apart, complete, and passed on line by line."""

from __future__ import annotations

import time

import pytest

from harness.worlds import Outcome, World
from harness.worlds.server import LINE_MOST, OUTPUT_AT_ONCE
from tests.programs import correct, endings, printing
from tests.torch_versions import since
from tests.worlds.call import Function
from tests.worlds.running import run

QUIET = since("2.9", "has a gloo that prints a line when it connects")

pytestmark = pytest.mark.gloo


def echoed(world: World, function: Function) -> tuple[Outcome, dict[int, list[str]]]:
    lines: dict[int, list[str]] = {0: [], 1: []}
    outcome = run(world, function, echo=lambda rank, line: lines[rank].append(line))
    return outcome, lines


@QUIET
def test_every_rank_has_its_own_output(gloo: World) -> None:
    outcome = run(gloo, endings.prints_to_both)
    for rank in (0, 1):
        said = {f"out {rank}", f"err {rank}", f"raw {rank}"}
        assert set(outcome.ranks[rank].output.splitlines()) == said


@QUIET
def test_a_last_line_that_nothing_ends_is_not_lost(gloo: World) -> None:
    outcome, lines = echoed(gloo, endings.prints_a_partial_line)
    assert lines == {rank: [f"whole {rank}", f"partial {rank}"] for rank in (0, 1)}
    assert outcome.ranks[1].output == "whole 1\npartial 1\n"


@QUIET
def test_a_last_line_does_not_run_into_the_next_case(gloo: World) -> None:
    run(gloo, endings.prints_a_partial_line)
    outcome, lines = echoed(gloo, correct.everyone_counts)
    assert lines == {0: [], 1: []}
    assert [rank.output for rank in outcome.ranks] == ["", ""]


@QUIET
def test_bytes_that_are_no_utf8_are_shown_as_such(gloo: World) -> None:
    assert (
        run(gloo, endings.prints_invalid_utf8).ranks[0].output == "caf\N{REPLACEMENT CHARACTER}\n"
    )


@QUIET
def test_a_megabyte_is_passed_on_whole_and_its_end_is_kept(gloo: World) -> None:
    outcome, lines = echoed(gloo, endings.prints_a_megabyte)
    for rank in (0, 1):
        assert lines[rank] == [f"{rank} {number:060d}" for number in range(16_384)]
        kept = outcome.ranks[rank].output
        assert len(kept) <= 64 * 1024
        assert kept.endswith(f"{rank} {16_383:060d}\n")


@QUIET
def test_the_output_of_a_rank_that_dies_is_kept(gloo: World) -> None:
    outcome = run(gloo, endings.starts_a_child_and_dies)
    assert all(rank.output.strip().isdigit() for rank in outcome.ranks)


@pytest.mark.parametrize(
    "program",
    [
        printing.both_wait_while_a_child_says_yes,
        printing.both_wait_while_a_child_prints_no_end_of_line,
    ],
)
def test_a_flood_of_output_holds_nothing_up(gloo: World, program: Function) -> None:
    longest = 0

    def echo(rank: int, line: str) -> None:
        nonlocal longest
        longest = max(longest, len(line))

    started = time.monotonic()
    outcome = run(gloo, program, echo=echo)
    assert outcome.ending == "stuck"
    assert time.monotonic() - started < 15
    assert longest <= LINE_MOST + OUTPUT_AT_ONCE


def test_what_prints_is_not_without_progress(gloo: World) -> None:
    assert run(gloo, printing.prints_now_and_then, timeout=1).ending == "finished"
