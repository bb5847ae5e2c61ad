"""A case is one line, and the line gives it back."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.case import DTYPES, OPTIMIZERS, WORKLOADS, Case, CaseError

LINE = (
    "1f1b world=4 chunks=8 batch=16 layers=8 width=16 dtype=float64 backend=sim "
    "semantics=gloo seed=7"
)


def optional(values: st.SearchStrategy[int] | st.SearchStrategy[str]) -> st.SearchStrategy[object]:
    return st.none() | values


positive = st.integers(1, 10**9)
words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)
cases = st.builds(
    Case,
    target=words.filter(lambda text: text.partition("=")[0] not in Case.__dataclass_fields__),
    world=positive,
    chunks=optional(positive),
    batch=optional(positive),
    layers=optional(positive),
    width=optional(positive),
    dtype=optional(st.sampled_from(DTYPES)),
    steps=optional(positive),
    optimizer=optional(st.sampled_from(OPTIMIZERS)),
    workload=optional(st.sampled_from(WORKLOADS)),
    policy=optional(st.sampled_from(("isend", "async"))),
    semantics=optional(st.just("gloo")),
    delay=st.integers(0, 1000),
    seed=st.integers(0, 2**31),
    args=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"))).map(tuple),
)


def test_the_line_of_the_design_reads_and_prints_as_itself() -> None:
    assert str(Case.parse(LINE)) == LINE


@given(cases)
def test_every_case_prints_as_one_line_that_parses_back(case: Case) -> None:
    line = str(case)
    assert "\n" not in line
    assert "\r" not in line
    assert Case.parse(line) == case


@given(st.text(max_size=40))
def test_any_text_is_a_case_or_refused_as_none(text: str) -> None:
    with contextlib.suppress(CaseError):
        assert Case.parse(text).world >= 1


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "does not begin with a target"),
        ("world=2", "does not begin with a target"),
        ("1f1b", "lacks world=N"),
        ("1f1b world=0", "world=0 in the case: a whole number from 1"),
        ("1f1b world=--5", "a whole number from 1"),
        ("1f1b world=" + "9" * 5000, "a whole number from 1"),
        ("1f1b world=2 world=3", "gives world= twice"),
        ("1f1b world=2 speed=3", "each word is one of"),
        ("1f1b world=2 dtype=int8", "allowed are float64"),
        ("1f1b world=2 policy=", "policy= in the case is empty"),
        ("1f1b 'world=2", "cannot be read"),
        ("""a.py world=2 args="'x" """, "cannot be read"),
    ],
)
def test_a_malformed_line_says_what_is_wrong(line: str, reason: str) -> None:
    with pytest.raises(CaseError) as refused:
        Case.parse(line)
    assert reason in str(refused.value)


def test_with_changes_one_field() -> None:
    assert Case("1f1b", 4, seed=1).with_(world=2) == Case("1f1b", 2, seed=1)
