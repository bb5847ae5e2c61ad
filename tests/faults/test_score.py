"""The whole corpus: all found by the right name, at the right place, and nothing else."""

from __future__ import annotations

import pytest

from harness.faults.corpus import find, read_corpus
from harness.faults.examine import examine
from harness.faults.score import Score, examine_all, read_baseline

# One of each kind of trouble on real ranks: the whole of it is for the command.
ON_GLOO = (
    "both-send-first", "loss-not-divided", "receive-buffer-too-small", "all-reduce-of-other-sizes",
    "raise-while-others-wait", "process-leaves-without-a-word", "layers-lost", "initialised-twice",
    "splits-that-do-not-meet", "gradient-changed-during-its-reduction",
)  # fmt: skip


@pytest.mark.timeout(600)
def test_the_corpus_is_found_and_its_twins_are_silent() -> None:
    entries = read_corpus()
    score = Score("sim", list(examine_all(entries, "sim")))
    told = {v.id: (v.codes, v.why, v.alarms, v.elsewhere) for v in score.verdicts}
    tally = score.tallies()["all"]
    assert tally.entries == len(entries)
    assert tally.found == tally.right_code == tally.entries, told
    assert tally.right_place >= 0.98 * tally.entries, told
    assert tally.noise == tally.false_alarms == 0, told
    assert score.below(read_baseline(None, "sim")) == {}, told


@pytest.mark.gloo
@pytest.mark.parametrize("name", ON_GLOO)
def test_entries_on_real_ranks(name: str) -> None:
    verdict = examine(find(read_corpus(), name), backend="gloo")
    assert verdict.right_place, verdict
    assert (verdict.noise, verdict.alarms) == (0, ()), verdict
