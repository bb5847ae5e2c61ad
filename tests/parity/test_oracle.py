"""The references: bitwise the monolith's own, and bounds between rounding and the least fault."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from harness.parity import bounds
from harness.parity.reference import Columns, Reference, one_thread, step_at
from harness.parity.results import StageResult, StepRecord, pack, unpack
from harness.parity.rows import by_size, partition
from harness.parity.shadow import Shadow
from pipeline.model import Monolith, Workload, chunk_sizes

KINDS = ("conditioned", "seed")
DTYPES = (torch.float64, torch.float32, torch.bfloat16)


def workload(kind: str, dtype: torch.dtype, batch: int = 10, seed: int = 3) -> Workload:
    classes = 8 if kind == "conditioned" else 2
    return Workload(kind, 5, 8, classes, batch, dtype, seed, lr=0.5, optimizer="sgd")


def columns_of(w: Workload, chunks: int) -> tuple[Reference, Columns]:
    reference = Reference(w)
    return reference, reference.columns(by_size(w.batch, chunks).rows)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]])
def test_columns_add_up_bitwise_to_the_monolith_in_microbatches(
    order: list[int], dtype: torch.dtype, kind: str
) -> None:
    w = workload(kind, dtype)
    _, columns = columns_of(w, 4)
    with one_thread():
        monolith = Monolith(w)
        loss = monolith.step_microbatched(order, chunk_sizes(w.batch, 4))
    flat = torch.cat([p.grad.reshape(-1) for p in monolith.parameters() if p.grad is not None])
    assert torch.equal(columns.accumulated(order), flat)
    assert torch.equal(columns.loss(order), loss)


@pytest.mark.parametrize("kind", KINDS)
def test_in_float64_the_whole_batch_is_within_its_bound(kind: str) -> None:
    reference, columns = columns_of(workload(kind, torch.float64), 4)
    loss, whole = reference.whole()
    error = bounds.relative(
        columns.accumulated([0, 1, 2, 3]) - whole,
        bounds.scales(columns, reference.sizes),
        reference.sizes,
    )
    assert float(error.max()) <= bounds.FLOAT64
    assert abs(float(columns.loss([0, 1, 2, 3]) - loss)) <= bounds.FLOAT64


def errors(reference: Reference, columns: Columns, gradient: Tensor) -> Tensor:
    base = columns.accumulated(range(len(columns.rows))).double()
    scale = bounds.scales(columns, reference.sizes)
    return bounds.relative(gradient.double() - base, scale, reference.sizes)


@given(
    st.sampled_from(KINDS),
    st.sampled_from(DTYPES[1:]),
    st.permutations(range(5)),
    st.integers(0, 99),
)
def test_every_order_stays_inside_the_measured_bound(
    kind: str, dtype: torch.dtype, order: list[int], seed: int
) -> None:
    reference, columns = columns_of(workload(kind, dtype, 13, seed), 5)
    bound = bounds.measure(reference, columns, range(5))
    assert bool((errors(reference, columns, columns.accumulated(order)) <= bound.gradient).all())
    apart = abs(float(columns.loss(order)) - float(columns.loss(range(5))))
    assert apart <= bound.loss * max(1.0, float(columns.loss(order)))


@given(st.sampled_from(KINDS), st.integers(0, 4), st.integers(0, 99))
def test_in_float32_a_dropped_microbatch_and_one_percent_fall_outside(
    kind: str, dropped: int, seed: int
) -> None:
    reference, columns = columns_of(workload(kind, torch.float32, 13, seed), 5)
    bound = bounds.measure(reference, columns, range(5))
    rest = columns.accumulated([k for k in range(5) if k != dropped])
    assert not bool((errors(reference, columns, rest) <= bound.gradient).all())
    more = 1.01 * columns.accumulated(range(5))
    assert not bool((errors(reference, columns, more) <= bound.gradient).all())


def test_a_measured_bound_is_the_same_every_time() -> None:
    reference, columns = columns_of(workload("seed", torch.float32), 4)
    once, twice = (bounds.measure(reference, columns, range(4)) for _ in range(2))
    assert torch.equal(once.gradient, twice.gradient)
    assert (once.loss, once.norm) == (twice.loss, twice.norm)


def test_the_reference_goes_where_the_ranks_parameters_are() -> None:
    w = workload("conditioned", torch.float64)
    start = Reference(w).values()
    rows = by_size(w.batch, 2).rows
    here, same = step_at(w, start, rows)
    there, other = step_at(w, start + 0.1, rows)
    assert step_at(w, start, rows)[0] is here, "the start is computed once"
    assert there is not here
    assert not torch.equal(same.gradients, other.gradients)
    assert torch.equal(here.values(), start)


def record(fed: list[tuple[int, ...] | None], forwards: list[int] | None = None) -> StepRecord:
    numbers = tuple(range(len(fed)) if forwards is None else forwards)
    return StepRecord(b"", b"", forwards=numbers, backwards=numbers, fed=tuple(fed))


def test_microbatches_are_cut_as_the_step_cut_them() -> None:
    cut = partition(7, 3, [record([(4, 5, 6), (0, 1), (2, 3)])])
    assert cut.rows == ((0, 1), (2, 3), (4, 5, 6))
    assert cut.order([0, 1, 2], [0, 1, 2]) == (2, 0, 1)
    assert cut.order([0, 0, 2], [0, 1, 2]) == (0, 1, 2)
    assert cut.unfed == ()


def test_samples_never_fed_are_a_microbatch_that_is_missing() -> None:
    cut = partition(7, 3, [record([(0, 1), (2, 3), (4, 5)])])
    assert cut.rows[-1] == (6,)
    assert cut.unfed == (3,)


@pytest.mark.parametrize("fed", [[None, (2, 3)], [(0, 1), (1, 2)], []])
def test_where_the_cut_cannot_be_told_it_is_the_executors(
    fed: list[tuple[int, ...] | None],
) -> None:
    assert partition(5, 2, [record(fed)]).rows == ((0, 1, 2), (3, 4))


def test_a_microbatch_fed_twice_is_one_column() -> None:
    cut = partition(4, 2, [record([(0, 1), (0, 1)])])
    assert cut.rows == ((0, 1), (2, 3))
    assert cut.unfed == (1,)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float16])
def test_packed_values_come_back_bit_for_bit(dtype: torch.dtype) -> None:
    tensors = [torch.randn(3, 2).to(dtype), torch.randn(5).to(dtype)]
    flat = unpack(pack([tensors[0], None], tensors), dtype)
    assert torch.equal(flat, torch.cat([tensors[0].reshape(-1), torch.zeros(5, dtype=dtype)]))
    assert unpack(b"", dtype).numel() == 0


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_shadow_follows_the_ranks_optimizer(dtype: torch.dtype, optimizer: str) -> None:
    w = Workload("conditioned", 3, 4, 8, 6, dtype, 1, lr=0.1, optimizer=optimizer)
    model = Monolith(w)
    parameters = list(model.parameters())
    ranks = w.optimizer_for(parameters)
    layout = tuple((name, tuple(p.shape)) for name, p in model.named_parameters())
    shadow = Shadow(w, Reference(w).values(), (StageResult(0, 0, 0, layout),))
    for _ in range(3):
        ranks.zero_grad()
        model.step()
        gradient = torch.cat([p.grad.reshape(-1) for p in parameters if p.grad is not None])
        ranks.step()
        after = torch.cat([p.detach().reshape(-1) for p in parameters])
        assert bool((shadow.advance(gradient, (), after) == 0).all())
    assert bool((shadow.advance(gradient, (), after * 0.98) > shadow.bound).all())
