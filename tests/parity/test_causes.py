"""The arithmetic that names a cause: right for every combination it can tell, silent for others."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from harness.parity.causes import Claim, explain, fit

NOISE = 1e-12


def columns(count: int, values: int = 40, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, values, generator=generator, dtype=torch.float64)


def combined(coefficients: list[float], parts: Tensor) -> Tensor:
    return torch.tensor(coefficients, dtype=torch.float64) @ parts


def expected_cause(c: list[int]) -> str:
    if len(set(c)) == 1 and c[0] not in (0, 1):
        return f"scale:{c[0]}"
    zeros = [str(place) for place, value in enumerate(c) if value == 0]
    if zeros:
        return f"missing-microbatch:{','.join(zeros)}"
    return f"duplicate-microbatch:{','.join(str(p) for p, v in enumerate(c) if v == 2)}"


@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=12).filter(lambda c: set(c) != {1}),
    st.integers(0, 99),
)
def test_every_mix_of_left_out_and_doubled_microbatches_is_named(c: list[int], seed: int) -> None:
    parts = columns(len(c), seed=seed)
    assert explain(combined([float(v) for v in c], parts), parts, NOISE).cause == expected_cause(c)


@given(st.integers(1, 12), st.integers(2, 64), st.booleans(), st.integers(0, 99))
def test_a_common_factor_is_named_whole_or_broken(
    count: int, factor: int, inverse: bool, seed: int
) -> None:
    parts = columns(count, seed=seed)
    k = 1 / factor if inverse else float(factor)
    claim = explain(combined([k] * count, parts), parts, NOISE)
    assert claim.kind == "scale"
    assert float(claim.cause.partition(":")[2]) == pytest.approx(k, rel=1e-3)


@given(st.lists(st.floats(0.2, 0.8), min_size=2, max_size=8), st.integers(0, 99))
def test_coefficients_without_a_meaning_stay_unknown(c: list[float], seed: int) -> None:
    c[0] = 0.9  # so that they are not all equal
    parts = columns(len(c), seed=seed)
    claim = explain(combined(c, parts), parts, NOISE)
    assert claim.cause == "unknown"
    assert claim.coefficients == pytest.approx(c, abs=1e-5)


def test_what_is_no_combination_at_all_stays_unknown() -> None:
    parts = columns(4)
    other = columns(1, seed=9)[0]
    assert explain(other, parts, NOISE).cause == "unknown"


def test_one_microbatch_missing_in_part_is_not_called_missing() -> None:
    parts = columns(3)
    assert explain(combined([1.0, 0.01, 1.0], parts), parts, NOISE).cause == "unknown"


def test_microbatches_too_much_alike_are_not_told_apart() -> None:
    parts = columns(1).repeat(4, 1) + 1e-12 * columns(4, seed=1)
    claim = explain(combined([1.0, 0.0, 1.0, 1.0], parts), parts, NOISE)
    assert claim.cause == "unknown"


def test_a_microbatch_without_a_gradient_of_its_own_leaves_all_unknown() -> None:
    parts = columns(3)
    parts[1] = 0
    assert explain(2 * parts.sum(dim=0), parts, NOISE).cause == "unknown"


def test_more_microbatches_than_values_cannot_be_solved_for() -> None:
    assert fit(torch.ones(3, dtype=torch.float64), columns(5, values=3), NOISE) is None


def test_an_earlier_steps_gradient_is_stale() -> None:
    parts, old = columns(4), columns(1, seed=5)
    observed = combined([1.0] * 4, parts) + old[0]
    assert explain(observed, parts, NOISE, earlier=[old]).cause == "stale-accumulation"
    assert explain(observed, parts, NOISE).cause == "unknown"


def test_a_plain_fault_is_not_called_stale_where_there_was_an_earlier_step() -> None:
    parts, old = columns(4), columns(1, seed=5)
    claim = explain(combined([1.0, 1.0, 0.0, 1.0], parts), parts, NOISE, earlier=[old])
    assert claim.cause == "missing-microbatch:2"


def test_the_gradient_of_other_targets_is_permuted_targets() -> None:
    parts, others = columns(4), columns(4, seed=3)
    observed = others.sum(dim=0)
    candidates = [columns(4, seed=7).sum(dim=0), observed.clone()]
    assert explain(observed, parts, NOISE, permuted=candidates).cause == "permuted-targets"


def test_where_the_right_gradient_is_zero_nothing_is_told() -> None:
    parts = torch.zeros(3, 12, dtype=torch.float64)
    claim = explain(columns(1, values=12)[0], parts, NOISE, permuted=[parts.sum(dim=0)])
    assert claim.cause == "unknown"


def test_a_permutation_that_changes_nothing_explains_nothing() -> None:
    parts = columns(4)
    observed = parts.sum(dim=0) + 1e-6 * columns(1, seed=8)[0]
    claim = explain(observed, parts, NOISE, permuted=[parts.sum(dim=0)])
    assert claim.cause == "unknown"


@given(st.integers(2, 8), st.integers(0, 99))
def test_uneven_microbatches_that_count_alike_are_noted(count: int, seed: int) -> None:
    parts = columns(count, seed=seed)
    shares = [2 / (2 * count + 1)] * (count - 1) + [3 / (2 * count + 1)]
    claim = explain(combined([1 / share for share in shares], parts), parts, NOISE, shares=shares)
    assert claim.cause == "unknown"
    assert claim.note == "each microbatch's mean loss counts 1, whatever its size"


@given(st.lists(st.sampled_from([0.0, 1.0, 2.0, 4.0, 0.5]), min_size=1, max_size=8))
def test_rounding_does_not_change_the_cause(c: list[float]) -> None:
    parts = columns(len(c))
    exact = combined(c, parts)
    noisy = exact + 1e-13 * parts.norm(dim=1).sum() * torch.nn.functional.normalize(
        columns(1, seed=11)[0], dim=0
    )
    assert explain(noisy, parts, NOISE).cause == explain(exact, parts, NOISE).cause


def test_a_claims_kind_is_its_cause_without_numbers() -> None:
    assert Claim("missing-microbatch:0,2").kind == "missing-microbatch"
