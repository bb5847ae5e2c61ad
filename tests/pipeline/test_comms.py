from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from pipeline.actions import CURRENT, Action
from pipeline.comms import Comms, CommsArgumentError
from pipeline.placement import Placement, looped, v_shaped
from tests.pipeline.threads import run_ranks


def test_activations_go_forward_and_gradients_back() -> None:
    def body(rank: int) -> Tensor:
        comms = Comms()
        if rank == 0:
            comms.send_forward(torch.full((2,), 5.0))
            return comms.receive_backward((2,))
        received = comms.receive_forward((2,))
        comms.send_backward(received * 2)
        return received

    (gradient, activation), _ = run_ranks(2, body)
    assert activation.tolist() == [5, 5]
    assert gradient.tolist() == [10, 10]


def test_asynchronous_calls_give_a_work_to_wait_for() -> None:
    def body(rank: int) -> Tensor:
        comms = Comms()
        if rank == 0:
            buffer, coming = comms.ireceive_backward((2,))
            comms.isend_forward(torch.ones(2)).wait()
        else:
            buffer, coming = comms.ireceive_forward((2,))
            comms.isend_backward(torch.ones(2) * 3).wait()
        coming.wait()
        return buffer

    (gradient, activation), transport = run_ranks(2, body)
    assert (gradient.tolist(), activation.tolist()) == ([3, 3], [1, 1])
    assert all(call.waited for call in transport.calls)


def test_what_is_received_is_a_plain_leaf() -> None:
    def body(rank: int) -> bool:
        comms = Comms()
        if rank == 0:
            comms.send_forward(torch.ones(4, 4, requires_grad=True).t() * 2)
            return True
        received = comms.receive_forward((4, 4))
        return received.is_leaf and not received.requires_grad

    assert run_ranks(2, body)[0] == [True, True]


def test_neighbours_end_at_the_first_and_the_last_rank() -> None:
    neighbours, _ = run_ranks(3, lambda rank: (Comms().previous_rank, Comms().next_rank))
    assert neighbours == [(None, 1), (0, 2), (1, None)]


def test_calls_outside_a_plan_are_labelled_by_count() -> None:
    def body(rank: int) -> None:
        comms = Comms()
        for _ in range(2):
            comms.start_step()
            for _ in range(2):
                if rank == 0:
                    comms.send_forward(torch.ones(1))
                else:
                    comms.receive_forward((1,))
        assert CURRENT.get() is None

    _, transport = run_ranks(2, body)
    labels = [str(call.action) for call in transport.calls if call.rank == 1]
    assert labels == ["1RECV_F0", "1RECV_F1"] * 2


def test_a_label_set_by_an_executor_is_kept() -> None:
    def body(rank: int) -> None:
        CURRENT.set(Action.parse("0SEND_F7" if rank == 0 else "1RECV_F7"))
        comms = Comms()
        comms.send_forward(torch.ones(1)) if rank == 0 else comms.receive_forward((1,))

    _, transport = run_ranks(2, body)
    assert {str(call.action) for call in transport.calls} == {"0SEND_F7", "1RECV_F7"}


def test_connecting_passes_once_along_every_pair_both_ways() -> None:
    _, transport = run_ranks(4, lambda rank: Comms().connect())
    assert sum(call.operation == "send" for call in transport.calls) == 6


@pytest.mark.parametrize(
    ("placement", "pairs"),
    [
        (Placement(looped(4)), [(0, 1), (0, 3), (1, 2), (2, 3)]),
        (Placement(v_shaped(4)), [(0, 1), (1, 2), (2, 3)]),
        (Placement(v_shaped(4), directions=2), [(0, 1), (1, 2), (2, 3)]),
        (Placement((0, 2, 1, 3)), [(0, 2), (1, 2), (1, 3)]),
    ],
)
def test_connecting_goes_through_the_pairs_in_one_order(
    placement: Placement, pairs: list[tuple[int, int]]
) -> None:
    """So no two ranks come to two pairs in opposite orders, and none waits in a circle."""
    _, transport = run_ranks(4, lambda rank: Comms(placement=placement).connect())
    for rank in range(4):
        mine = [call for call in transport.calls if call.rank == rank]
        met = [tuple(sorted((rank, call.peer))) for call in mine]
        assert met == [pair for pair in pairs if rank in pair for _ in range(2)]


WRONG: dict[str, tuple[int, Callable[[Any], Any], str]] = {
    "no gradient": (
        1,
        lambda comms: comms.send_backward(None),
        r"1SEND_B0 got None: the received activation has no gradient; call requires_grad_\(\) on "
        r"it before stage\(x\)",
    ),
    "no activation": (0, lambda comms: comms.send_forward(None), "0SEND_F0 got None"),
    "no tensor": (0, lambda comms: comms.isend_forward(3), "got a int; expected a tensor"),
    "float size": (1, lambda comms: comms.receive_forward((4 / 2, 8)), "2.0 is a float.* //"),
    "negative size": (1, lambda comms: comms.receive_forward((-1, 8)), "-1 < 0"),
    "before the first": (0, lambda comms: comms.receive_forward((1,)), "the first rank has no"),
    "after the last": (1, lambda comms: comms.isend_forward(torch.ones(1)), "the last rank has no"),
    "dtype": (
        0,
        lambda comms: comms.send_forward(torch.ones(1, dtype=torch.float64)),
        "got torch.float64 on cpu; the receiver expects torch.float32 on cpu",
    ),
    "device": (0, lambda comms: comms.send_forward(torch.ones(1, device="meta")), "on meta"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_call_that_cannot_work_is_refused_with_what_to_do(case: str) -> None:
    at, call, message = WRONG[case]

    def body(rank: int) -> None:
        if rank == at:
            call(Comms())

    with pytest.raises(CommsArgumentError, match=message):
        run_ranks(2, body)
