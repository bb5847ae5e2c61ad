"""Every use of a tensor that is on its way is found, at its line; and no use that is right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from harness.findings import Finding
from harness.worlds import Simulated, World
from tests.programs import buffers, correct
from tests.worlds.call import Function
from tests.worlds.running import assert_clean, findings, line_of, run

GUARD = Simulated(guard=True)


@dataclass(frozen=True)
class Using:
    """A program around one use of a tensor; made on the rank, as a closure cannot be sent there."""

    role: str
    use: Callable[..., Any]

    def __call__(self, rank: int, world_size: int) -> Any:
        return getattr(buffers, self.role)(self.use)(rank, world_size)


def use_found(world: World, function: Function, how: Simulated = GUARD) -> Finding:
    found = [f for f in findings(run(world, function, simulated=how)) if f.severity == "error"]
    assert len(found) == 1, [f"{f.code}: {f.message}" for f in found]
    return found[0]


def tells(finding: Finding, function: Callable[..., Any]) -> bool:
    """Whether it names the line of the use."""
    place = f"{buffers.__file__}:{line_of(function, 'used')}"
    return finding.details["used_at"] == place and place in finding.message


@pytest.mark.parametrize("use", buffers.READS + buffers.WRITES, ids=lambda use: use.__name__)
def test_a_buffer_used_before_its_receive_was_waited_for(
    sim: World, use: Callable[..., Any]
) -> None:
    finding = use_found(sim, Using("_receiver", use))
    assert (finding.code, finding.ranks) == ("early-read", (1,))
    assert tells(finding, use)


@pytest.mark.parametrize("use", buffers.WRITES, ids=lambda use: use.__name__)
def test_a_tensor_written_before_its_send_was_waited_for(
    sim: World, use: Callable[..., Any]
) -> None:
    finding = use_found(sim, Using("_sender", use))
    assert (finding.code, finding.ranks) == ("buffer-overwrite", (0,))
    assert tells(finding, use)


@pytest.mark.parametrize("use", buffers.READS, ids=lambda use: use.__name__)
def test_a_tensor_that_is_sent_may_be_read(sim: World, use: Callable[..., Any]) -> None:
    assert_clean(run(sim, Using("_sender", use), simulated=GUARD))


@pytest.mark.parametrize("role", ["_receiver", "_sender"])
def test_what_goes_past_the_operators_is_told_by_the_bytes(sim: World, role: str) -> None:
    code = "early-read" if role == "_receiver" else "buffer-overwrite"
    assert use_found(sim, Using(role, buffers.writes_by_numpy)).code == code


@pytest.mark.parametrize(
    ("function", "code"),
    [
        (buffers.reads_in_an_older_graph, "early-read"),
        (buffers.writes_a_gradient_that_is_sent, "buffer-overwrite"),
    ],
)
def test_a_backward_is_watched_too(sim: World, function: Function, code: str) -> None:
    finding = use_found(sim, function)
    assert finding.code == code
    assert tells(finding, function)


def test_a_buffer_that_is_sent_on_before_it_has_come(sim: World) -> None:
    assert use_found(sim, buffers.sends_what_it_receives).code == "early-read"


@pytest.mark.parametrize(
    "use", [buffers.looks_only, buffers.uses_another], ids=lambda u: u.__name__
)
def test_looking_at_a_buffer_s_shape_is_no_use(sim: World, use: Callable[..., Any]) -> None:
    for role in ("_receiver", "_sender"):
        assert_clean(run(sim, Using(role, use), simulated=GUARD))


@pytest.mark.parametrize("function", buffers.RIGHT, ids=lambda function: function.__name__)
@pytest.mark.parametrize("interleaving", ["", "random:1", "random:2"])
def test_right_programs_give_nothing(sim: World, function: Function, interleaving: str) -> None:
    assert_clean(run(sim, function, simulated=Simulated(guard=True, interleaving=interleaving)))


@pytest.mark.parametrize("function", [correct.everything, correct.waits_in_another_order])
def test_collectives_and_objects_give_nothing(sim: World, function: Function) -> None:
    assert_clean(run(sim, function, 3 if function is correct.everything else 2, simulated=GUARD))
