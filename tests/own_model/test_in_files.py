"""A model of one's own beside a step in its file: found by its names; faults told at its lines."""

from __future__ import annotations

from pathlib import Path

import pytest

import harness
from harness.targets import TargetError
from tests.own_model.files import SHOWN, case_line, findings, only, write
from tests.own_model.test_document import TIED

WEIGHT = "(stage.module[0][0] if stage.is_first else stage.module[-1]).weight"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            f"dist.all_reduce({WEIGHT}.grad, dist.ReduceOp.AVG, group=ends)",
            "it is 0.5 times the sum",
        ),
        (
            f"w = {WEIGHT}.grad\n"
            "        if stage.is_last:\n            dist.send(w, 0)\n"
            "        else:\n            dist.recv(other := w.clone(), 2)\n            w += other",
            "on rank 2 is not the model's in stage 2 1.weight, which is tied to stage 0 "
            "0.0.weight: it is its own stage's part alone",
        ),
        (
            f"w = {WEIGHT}; w.grad *= 1 + stage.is_last; dist.all_reduce(w.grad, group=ends)",
            "it is 1 times rank 0's and 2 times rank 2's part",
        ),
    ],
)
def test_what_a_tied_gradient_is_made_of_is_told(tmp_path: Path, line: str, told: str) -> None:
    finding = only(write(tmp_path, (TIED, f"        {line}\n")))
    assert finding.cause == "tied-not-summed"
    assert told in finding.message
    assert len(finding.details["tied_to"]) == 1
    assert set(finding.details["parts_of_ranks"]) == {"0", "2"}


def test_another_fault_beside_a_tied_parameter_is_told_as_itself(tmp_path: Path) -> None:
    finding = only(write(tmp_path, ("* len(rows) / batch.size)", "* 1)")), batch=4)
    assert finding.cause == "scale:2"


def test_an_input_of_other_samples_than_the_rest_is_found(tmp_path: Path) -> None:
    shifted = (
        "        x[0].requires_grad_(not stage.is_first)\n",
        "        if stage.is_first:\n            x[2] = batch.inputs[2].roll(1, 0)[rows]\n"
        "        x[0].requires_grad_(not stage.is_first)\n",
    )
    finding = only(write(tmp_path, shifted), batch=6, seed=3)
    assert "input 2 of the first stage's forward was not the batch's own" in finding.message


def test_targets_of_other_samples_are_found(tmp_path: Path) -> None:
    turned = ("batch.targets[rows])", "batch.targets.flip(0)[rows])")
    assert only(write(tmp_path, turned), batch=6).cause == "permuted-targets"


def test_a_batch_that_is_kept_from_the_first_step_is_found(tmp_path: Path) -> None:
    kept = (
        "def step(stage, comms, batch, chunks):\n",
        "kept = {}\n\ndef step(stage, comms, batch, chunks):\n"
        "    batch = kept.setdefault(comms.rank, batch)\n",
    )
    assert only(write(tmp_path, kept), batch=6).cause == "stale-batch"


def test_the_names_may_be_the_step_s_attributes(tmp_path: Path) -> None:
    text = SHOWN.replace("def model", "def own").replace("def data", "def samples")
    text += "\nstep.model, step.data = own, samples\n"
    assert findings(write(tmp_path, text=text)) == []
    alone = text.replace("step.model, step.data = own, samples", "step.model = own")
    with pytest.raises(TargetError, match="model without data"):
        findings(write(tmp_path, text=alone))


def test_one_name_alone_beside_a_step_means_nothing(tmp_path: Path) -> None:
    text = (Path("examples") / "gpipe.py").read_text() + "\n\ndef model():\n    return None\n"
    line = case_line(write(tmp_path, text=text), world=2, layers=4, width=4)
    assert harness.replay(line).findings == []


def test_a_build_stage_and_a_model_exclude_each_other(tmp_path: Path) -> None:
    target = write(tmp_path, text=SHOWN + "\ndef build_stage(i, n, layers, width):\n    pass\n")
    with pytest.raises(TargetError, match="has a model and a build_stage: give one"):
        findings(target)


def test_what_is_given_from_python_comes_before_what_stands_in_the_file(tmp_path: Path) -> None:
    def fails(batch: int) -> None:
        raise KeyError("the one that was given")

    with pytest.raises(TargetError, match="the one that was given"):
        harness.check(write(tmp_path), data=fails, confirm=False)
