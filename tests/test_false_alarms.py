"""A sample of the campaign: no error in what is right."""

from __future__ import annotations

import pytest

from tests.false_alarms import campaign


@pytest.mark.timeout(400)
def test_nothing_is_found_in_correct_cases() -> None:
    kinds, wrong = campaign(100, seed=1)
    assert wrong == []
    assert set(kinds) == {"Checked", "Scripted", "Twin"}
    assert kinds.total() == 100
