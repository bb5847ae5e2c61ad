"""What the command prints, letter by letter."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.findings import Cases, Finding, Operation, Report
from harness.report.coverage import ranges
from harness.report.text import describe_operation, render, render_all, render_finding

DEADLOCK = Finding(
    "deadlock",
    "ranks 0 and 1 wait for each other",
    "make one of them isend, or post both as one batch_isend_irecv",
    operations=(
        Operation(0, "send", "schedule.py", 41, "step", "blocked", peer=1, action="0SEND_F1"),
        Operation(1, "send", "schedule.py", 57, "step", "blocked", peer=0, action="1SEND_B0"),
    ),
    cause="a send completes only when its receive is posted, and both ranks send first",
    case="schedule.py:step world=2 chunks=2 args='a b'",
)


def operation(rank: int, op: str, **values: object) -> Operation:
    return Operation(rank, op, "a.py", 7 + rank, "main", **{"state": "blocked", **values})  # type: ignore[arg-type]


def test_a_finding_is_told_as_the_style_has_it() -> None:
    assert render_finding(DEADLOCK) == (
        "error[deadlock]: ranks 0 and 1 wait for each other\n"
        "  rank 0  send to 1, activation 0SEND_F1   schedule.py:41 in step\n"
        "  rank 1  send to 0, gradient   1SEND_B0   schedule.py:57 in step\n"
        "cause: a send completes only when its receive is posted, and both ranks send first\n"
        "help:  make one of them isend, or post both as one batch_isend_irecv\n"
        "replay: harness replay 'schedule.py:step world=2 chunks=2 args='\"'\"'a b'\"'\"''"
    )


def test_columns_that_nobody_uses_take_no_room_and_states_show_where_they_differ() -> None:
    finding = Finding(
        "orphan-wait",
        "rank 10 waits in a barrier that rank 1 has left",
        "call it on every rank",
        operations=(
            operation(10, "barrier"),
            operation(1, "irecv", peer=0, tag=3, state="done"),
            Operation(2, "exit", "", 0, "", "finished"),
        ),
    )
    assert render_finding(finding) == (
        "error[orphan-wait]: rank 10 waits in a barrier that rank 1 has left\n"
        "  rank 10  barrier               a.py:17 in main   (blocked)\n"
        "  rank 1   irecv from 0, tag 3   a.py:8 in main    (done)\n"
        "  rank 2   exit                                    (finished)\n"
        "help:  call it on every rank"
    )


def test_files_are_named_from_here_on_in_every_sentence() -> None:
    here = f"{Path.cwd()}{os.sep}"
    finding = Finding(
        "deadlock",
        f"at {here}a.py:1",
        f"move {here}a.py:2",
        cause="order",
        details={"why": f"{here}a.py:3 comes first", "followed_by": [f"then {here}a.py:4"]},
    )
    assert render_finding(finding) == (
        "error[deadlock]: at a.py:1\n"
        "cause: order: a.py:3 comes first\n"
        "then:  then a.py:4\n"
        "help:  move a.py:2"
    )


def test_the_users_traceback_stacks_and_output_are_part_of_a_finding() -> None:
    finding = Finding(
        "rank-error",
        "rank 1 raised KeyError: 'x'",
        "mend it",
        details={
            "traceback": '  File "a.py", line 3, in f\n    d["x"]\nKeyError: \'x\'\n',
            "stacks": {"0": ["a.py:9 in g"], "1": "nothing"},
            "output": "last words\n",
        },
    )
    assert render_finding(finding).splitlines()[1:-1] == [
        '    File "a.py", line 3, in f',
        '      d["x"]',
        "  KeyError: 'x'",
        "  rank 0:",
        "    a.py:9 in g",
        "  rank 1:",
        "    nothing",
        "  last output:",
        "    last words",
    ]


def test_what_followed_is_told_the_first_few_of_it() -> None:
    followed = [f"rank-error: rank {rank} raised" for rank in range(5)]
    text = render_finding(DEADLOCK.with_(details={"followed_by": followed})).splitlines()
    at = text.index("then:  rank-error: rank 0 raised")
    assert text[at : at + 4] == [
        "then:  rank-error: rank 0 raised",
        "then:  rank-error: rank 1 raised",
        "then:  rank-error: rank 2 raised",
        "then:  2 more that follow from it",
    ]
    assert text[at + 4].startswith("help:")


def test_a_check_that_stopped_after_a_finding_says_why() -> None:
    report = Report("a", "gloo", ("gloo",), [DEADLOCK], Cases(3, 2, 1), error="no more memory")
    assert str(report).splitlines()[-2:] == [
        "a: 1 finding in 3 cases (1 failing) on gloo, 0.0 s",
        "stopped: no more memory",
    ]


def test_a_clean_check_says_what_was_tried_refused_and_not_proved() -> None:
    report = Report(
        "mine.py:step",
        "gloo",
        ("gloo",),
        cases=Cases(run=43, clean=40, refused=3),
        elapsed_s=12.34,
        refusals={"chunks must not\nexceed batch": 1, "no odd worlds": 2},
        tried={
            "world": [1, 2, 3, 6],
            "chunks": [1, 2, 4],
            "uneven_batches": 7,
            "uneven_layers": 0,
            "dtype": ["float32", "float64"],
            "steps": [1, 2],
            "delay": [0, 2],
            "compared": 40,
            "bitwise": 1,
            "seed": 0,
        },
    )
    assert render(report) == (
        "mine.py:step: no finding in 43 cases on gloo, 12.3 s\n"
        "tried: worlds 1..3,6; chunks 1,2,4; dtypes float32, float64; steps 1,2; "
        "delays of up to (ms) 0,2; seed 0; uneven batches in 7 cases\n"
        "compared: in 40 cases, bit for bit in 1 case\n"
        "refused by the target: 3 cases\n"
        "  2 × no odd worlds\n"
        "  1 × chunks must not exceed batch\n"
        "not proved: shapes and timings not tried, and NCCL's ordering and capacity; "
        "another --seed draws others"
    )


def test_a_report_with_findings_ends_in_their_number() -> None:
    warning = DEADLOCK.with_(code="unawaited-request", severity="warning")
    report = Report(
        "1f1b",
        "gloo",
        ("gloo",),
        findings=[DEADLOCK, warning],
        cases=Cases(run=40, clean=38, failing=2),
        elapsed_s=3,
    )
    last = "1f1b: 1 finding, 1 warning in 40 cases (2 failing) on gloo, 3.0 s"
    assert str(report).splitlines()[-1] == last
    report.strict = True
    assert "1f1b: 2 findings in 40 cases" in str(report)
    with pytest.raises(AssertionError, match="2 findings"):
        report.raise_if_findings()


def test_a_check_that_could_not_be_made_says_why() -> None:
    report = Report("mine.py:step", "gloo", ("gloo",), error="every shape was refused")
    assert render(report) == "mine.py:step: error: every shape was refused"


def test_a_run_says_that_it_is_one() -> None:
    report = Report("a.py", "gloo", ("gloo",), cases=Cases(1, 1), elapsed_s=0.5, command="run")
    assert render(report).splitlines() == [
        "a.py: no finding in this run on gloo, 0.5 s",
        "not proved: other timings of the ranks, and NCCL's ordering and capacity; this is one run",
    ]


def test_colour_adds_to_the_same_text_and_width_wraps_sentences_only() -> None:
    import re

    report = Report("1f1b", "gloo", ("gloo",), findings=[DEADLOCK], cases=Cases(1, 0, 1))
    coloured = render(report, color=True)
    assert "\x1b[1;31merror[deadlock]\x1b[0m" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == render(report)
    lines = render(report, width=40).splitlines()
    assert lines[1].endswith("in step")
    assert lines[3:6] == [
        "cause: a send completes only when its",
        "       receive is posted, and both ranks",
        "       send first",
    ]


def test_several_reports_stand_one_after_another() -> None:
    report = Report("a", "gloo", ("gloo",), error="x")
    assert render_all([report, report]) == "a: error: x\n\na: error: x"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (operation(0, "isend", peer=1), "isend to 1"),
        (operation(0, "recv", peer=3, tag=2), "recv from 3, tag 2"),
        (operation(0, "recv"), "recv from any rank"),
        (operation(0, "isend, wait", peer=1, tag=2), "isend to 1, tag 2, wait"),
        (operation(0, "batched irecv, wait", peer=1), "batched irecv from 1, wait"),
        (operation(0, "all_reduce"), "all_reduce"),
        (operation(0, "broadcast", tag=0), "broadcast"),
    ],
)
def test_an_operation_is_named_with_its_peer(given: Operation, text: str) -> None:
    assert describe_operation(given) == text


def test_numbers_are_written_as_the_options_take_them() -> None:
    assert ranges([1, 2, 3, 5, 6, 9]) == "1..3,5,6,9"
    assert ranges([]) == ""
