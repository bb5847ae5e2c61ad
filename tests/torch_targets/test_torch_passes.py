"""Plans that torch's own validation or simulation accepts, though they are wrong: found here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import harness
from harness.findings import Finding
from harness.torch_pipelining import api


def order(plan: str) -> dict[int, list[Any]]:
    """Read a plan as torch does; a line for each rank."""
    action = api()._Action
    rows = enumerate(plan.strip().splitlines())
    return {rank: [action.from_str(cell) for cell in row.split()] for rank, row in rows}


def found(folder: Path, plan: str, **options: Any) -> list[Finding]:
    """Check a plan from a file, as ``harness check plan.csv`` does."""
    file = folder / "plan.csv"
    rows = [",".join(row.split()) for row in plan.strip().splitlines()]
    file.write_text("\n".join(rows) + "\n")
    report = harness.check(str(file), backend="sim", cases=2, confirm=False, **options)
    assert report.error is None
    return report.findings


# plan, microbatches, ranks, what our message says of it
NOT_VALID = {
    "an action twice": (
        "0F0 0F1 0B0 0B0 0B1\n1F0 1B0 1F1 1B1", 2, (0,), "rank 0: 0B0 appears twice"
    ),
    "a microbatch out of range": (
        "0F0 0F7 0B0 0B7\n1F0 1B0 1F7 1B7", 2, (0, 1), "rank 0: 0F1 is missing"
    ),
    "microbatches that differ by stage": (
        "0F0 0F1 0B0 0B1\n1F0 1B0 1F2 1B2", 2, (0, 1), "rank 0: 0F2 is missing"
    ),
    "ranks that wait for each other": (
        "0F0 0B0 0F1 0B1\n1F0 1F1 1B0 1B1", 2, (0, 1),
        "rank 0: 0B0 waits for 1B0, and rank 1 cannot get past 1F1",
    ),
    "sends without receives": (
        "0F0 0SEND_F0 0B0\n1F0 1B0 1SEND_B0", 1, (0, 1),
        "rank 0: 0SEND_F0 has no receive: 1RECV_F0 is missing",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_VALID)
def test_what_torch_s_validation_accepts_is_found(name: str, tmp_path: Path) -> None:
    plan, chunks, ranks, words = NOT_VALID[name]
    assert api()._validate_schedule(order(plan), 2, 2, chunks) == {0: 0, 1: 1}
    (finding,) = found(tmp_path, plan)
    assert (finding.code, finding.ranks) == ("plan-invalid", ranks)
    assert words in finding.message


# plan, ranks of the stages, code, ranks, words
NOT_RIGHT = {
    "receives in another order than sends": (
        "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1\n"
        "1RECV_F1 1RECV_F0 1F0 1B0 1SEND_B0 1F1 1B1 1SEND_B1",
        (0, 1), "message-swap", (0, 1), "1RECV_F1 took rank 0's 0SEND_F0",
    ),
    "a message sent twice": (
        "0F0 0SEND_F0 0SEND_F0 0RECV_B0 0B0\n1RECV_F0 1F0 1B0 1SEND_B0",
        (0, 1), "plan-invalid", (0,), "0SEND_F0 appears twice",
    ),
    "a message received twice": (
        "0F0 0SEND_F0 0RECV_B0 0B0\n1RECV_F0 1RECV_F0 1F0 1B0 1SEND_B0",
        (0, 1), "plan-invalid", (1,), "1RECV_F0 appears twice",
    ),
    "an activation sent by the last stage": (
        "0F0 0SEND_F0 0RECV_B0 0B0\n1RECV_F0 1F0 1SEND_F0 1B0 1SEND_B0",
        (0, 1), "plan-invalid", (1,), "1SEND_F0 has no receive",
    ),
    "a gradient sent by the first stage": (
        "0F0 0SEND_F0 0RECV_B0 0B0 0SEND_B0\n1RECV_F0 1F0 1B0 1SEND_B0",
        (0, 1), "plan-invalid", (0,), "0SEND_B0 has no receive",
    ),
    "messages to one's own rank": (
        "0F0 0SEND_F0 3RECV_F0 3F0 3B0 3SEND_B0 0RECV_B0 0B0\n"
        "1RECV_F0 1F0 1SEND_F0 2RECV_F0 2F0 2SEND_F0 2RECV_B0 2B0 2SEND_B0 1RECV_B0 1B0 1SEND_B0",
        (0, 1, 1, 0), "plan-invalid", (1,), "1SEND_F0 sends to its own rank",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_RIGHT)
def test_what_torch_s_simulation_accepts_is_found(name: str, tmp_path: Path) -> None:
    plan, placed, code, ranks, words = NOT_RIGHT[name]
    assert api()._simulate_comms_compute(order(plan), placed.__getitem__, len(placed))
    (finding,) = found(tmp_path, plan)
    assert (finding.code, finding.ranks) == (code, ranks)
    assert words in finding.message


def test_sends_that_need_a_buffer_hang_where_they_block(tmp_path: Path) -> None:
    """To torch's simulation every send is buffered; so it may be, and need not."""
    plan = (
        "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1\n"
        "1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1"
    )
    assert api()._simulate_comms_compute(order(plan), (0, 1).__getitem__, 2)
    (finding,) = found(tmp_path, plan, policy="blocking")
    assert (finding.code, finding.ranks, finding.cause) == ("deadlock", (0, 1), "needs-buffering")
    assert [op.action for op in finding.operations] == ["0SEND_F1", "1SEND_B0"]
    assert found(tmp_path, plan) == []  # posted without waiting, it runs


# torch raises for these as well, and what it raises says less
REFUSED = {
    "a receive is missing": (
        "0F0 0SEND_F0 0RECV_B0 0B0\n1F0 1B0 1SEND_B0", ValueError, (0, 1), "1F0 needs 1RECV_F0"
    ),
    "a send is missing": (
        "0F0 0RECV_B0 0B0\n1RECV_F0 1F0 1B0 1SEND_B0", ValueError, (1,), "1RECV_F0 has no send"
    ),
    "the last stage receives a gradient": (
        "0F0 0SEND_F0 0RECV_B0 0B0\n1RECV_F0 1F0 1RECV_B0 1B0 1SEND_B0",
        IndexError, (1,), "1RECV_B0 has no send",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_torch_s_simulation_stops_at_is_named(name: str, tmp_path: Path) -> None:
    plan, error, ranks, words = REFUSED[name]
    with pytest.raises(error):
        api()._simulate_comms_compute(order(plan), (0, 1).__getitem__, 2)
    (finding,) = found(tmp_path, plan)
    assert (finding.code, finding.ranks) == ("plan-invalid", ranks)
    assert words in finding.message


def test_right_plans_are_clean_in_both_forms(tmp_path: Path) -> None:
    assert found(tmp_path, "0F0 0F1 0B0 0B1\n1F0 1B0 1F1 1B1") == []
    lowered = "0F0 0SEND_F0 0RECV_B0 0B0 0REDUCE_GRAD\n1RECV_F0 1F0 1B0 1SEND_B0 1REDUCE_GRAD"
    assert found(tmp_path, lowered) == []
