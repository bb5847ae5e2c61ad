"""Two ranks with the same slices sum what each has of their gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from pipeline.comms import Comms, CommsArgumentError
from pipeline.model import Workload
from pipeline.placement import Placement
from pipeline.shared_gradients import SharedGradients
from pipeline.stage import Stage
from tests.pipeline.threads import run_ranks

BOTH_WAYS = Placement((0, 1, 1, 0), directions=2)
WORKLOAD = Workload.conditioned(dtype=torch.float32)


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight, self.unused = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(1))
        self.frozen = nn.Parameter(torch.ones(1), requires_grad=False)


def stages(rank: int) -> list[Stage]:
    return [
        Stage([Small()], BOTH_WAYS.slice_of(number), 2, WORKLOAD, number=number)
        for number in BOTH_WAYS.held_by(rank)
    ]


def weight(stage: Stage) -> nn.Parameter:
    return next(p for name, p in stage.named_parameters() if name.endswith("weight"))


def test_what_both_ranks_have_is_summed_and_what_was_there_before_is_kept() -> None:
    def body(rank: int) -> list[list[Tensor | None]]:
        held = stages(rank)
        weight(held[0]).grad = torch.full((2,), 100.0)
        shared = SharedGradients(held, Comms(placement=BOTH_WAYS))
        for stage in held:
            assert weight(stage).grad is None
            weight(stage).grad = torch.full((2,), 1.0 + stage.number)
        loss = shared.sum(torch.tensor(float(rank + 1)))
        assert loss is not None
        assert loss.item() == 3
        shared.restore()  # again, which changes nothing
        return [[p.grad for p in stage.parameters()] for stage in held]

    found, transport = run_ranks(2, body)
    first, second = 1.0 + 3.0, 2.0 + 4.0  # of stages 0 and 2, 1 and 3
    for rank, slices in enumerate([(first, second), (second, first)]):
        for place, expected in enumerate(slices):
            of_weight, unused, frozen = found[rank][place]
            assert of_weight is not None
            assert of_weight.tolist() == [expected + (0 if place else 100)] * 2
            assert (unused, frozen) == (None, None), "nobody has a gradient of these"
    assert all(call.waited for call in transport.calls)


def test_a_gradient_that_one_rank_alone_has_is_on_both() -> None:
    def body(rank: int) -> list[list[float]]:
        held = stages(rank)
        shared = SharedGradients(held, Comms(placement=BOTH_WAYS))
        if rank == 0:
            weight(held[0]).grad = torch.ones(2)
        shared.sum(None)
        return [
            [] if (gradient := weight(stage).grad) is None else gradient.tolist() for stage in held
        ]

    (ours, theirs), _ = run_ranks(2, body)
    assert ours == [[1, 1], []]
    assert theirs == [[], [1, 1]]


def test_a_step_that_fails_gives_back_what_was_there_before() -> None:
    def body(rank: int) -> Tensor | None:
        held = stages(rank)
        weight(held[0]).grad = torch.full((2,), 7.0)
        SharedGradients(held, Comms(placement=BOTH_WAYS)).restore()
        return weight(held[0]).grad

    for gradient in run_ranks(2, body)[0]:
        assert gradient is not None
        assert gradient.tolist() == [7, 7]


def test_without_copies_nothing_is_exchanged() -> None:
    def body(rank: int) -> None:
        held = [Stage([Small()], rank, 2, WORKLOAD)]
        weight(held[0]).grad = torch.ones(2)
        assert SharedGradients(held, Comms()).sum(None) is None
        assert weight(held[0]).grad is not None

    assert run_ranks(2, body)[1].calls == []


def test_a_sum_of_another_type_is_refused() -> None:
    def body(rank: int) -> None:
        Comms(torch.float64).sum_with(1 - rank, torch.ones(1))

    with pytest.raises(CommsArgumentError, match=r"the sum with rank [01] got torch\.float32 on"):
        run_ranks(2, body)


@pytest.mark.parametrize(
    ("ranks", "directions", "message"),
    [
        ((0, 1, 0, 1), 2, "rank 0 has copies of its stages on ranks"),
        ((0, 1, 2), 2, "3 stages cannot be 2 pipelines"),
        ((), 1, "0 stages cannot be 1 pipelines"),
    ],
)
def test_copies_that_cannot_be_summed_are_refused(
    ranks: tuple[int, ...], directions: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Placement(ranks, directions).mirror(0)
