import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.model import Batch, Monolith, Workload
from pipeline.stage import StageRunner, build_batch, build_stage


@settings(max_examples=25)
@given(st.integers(1, 9), st.data())
def test_the_stages_hold_the_monolith_s_parameters_exactly_once(
    layers: int, data: st.DataObject
) -> None:
    count = data.draw(st.integers(1, layers))
    workload = Workload.conditioned(layers=layers)
    names = []
    monolith = dict(Monolith(workload).named_parameters())
    for index in range(count):
        stage = build_stage(workload, index, count)
        for name, parameter in stage.named_parameters():
            assert torch.equal(parameter, monolith[stage.monolith_name(name)])
            names.append(stage.monolith_name(name))
    assert names == list(monolith)


def test_stages_in_a_row_are_the_monolith() -> None:
    workload = Workload.conditioned(layers=5)
    monolith = Monolith(workload)
    x = monolith.inputs
    for index in range(3):
        stage = build_stage(workload, index, 3)
        assert x.shape == stage.input_shape(16)
        x = stage(x, monolith.targets) if stage.is_last else stage(x)
        if not stage.is_last:
            assert x.shape == stage.output_shape(16)
    assert torch.equal(x.detach(), monolith.step())


def test_targets_belong_to_the_last_stage_only() -> None:
    first, last = (build_stage(Workload.conditioned(), index, 2) for index in range(2))
    x, targets = torch.zeros(2, 16, dtype=torch.float64), torch.zeros(2, dtype=torch.long)
    with pytest.raises(TypeError, match=r"stage 1 is the last: call stage\(x, targets\)"):
        last(x)
    with pytest.raises(TypeError, match=r"stage 0 is not the last: call stage\(x\)"):
        first(x, targets)


def test_a_rank_sees_only_its_end_of_the_batch() -> None:
    workload = Workload.conditioned()
    seen = [build_batch(workload, build_stage(workload, index, 3)) for index in range(3)]
    assert [batch.inputs is not None for batch in seen] == [True, False, False]
    assert [batch.targets is not None for batch in seen] == [False, False, True]
    assert {batch.size for batch in seen} == {16}


@pytest.mark.parametrize("index", [-1, 2])
def test_a_stage_that_does_not_exist_is_refused(index: int) -> None:
    with pytest.raises(ValueError, match=r"stage index must be within 0\.\.1"):
        build_stage(Workload.conditioned(), index, 2)


def test_activations_are_held_from_forward_to_backward() -> None:
    workload = Workload.conditioned()
    stage = build_stage(workload, 1, 3)
    runner = StageRunner(stage, Batch(16, None, None), [8, 8])
    for microbatch in range(2):
        runner.forward(microbatch, torch.ones(8, 16, dtype=torch.float64))
    assert runner.in_flight == 2
    for microbatch in range(2):
        gradient = runner.backward(microbatch, torch.ones(8, 16, dtype=torch.float64))
        assert gradient is not None
        assert gradient.shape == (8, 16)
    assert runner.in_flight == 0
    assert runner.loss is None


def test_a_split_backward_gives_the_weights_nothing_before_w_and_the_same_in_the_end() -> None:
    workload = Workload.conditioned()
    whole, cut = (build_stage(workload, 1, 3) for _ in range(2))
    gradient = torch.ones(8, 16, dtype=torch.float64)
    of_inputs = []
    for stage, kind in ((whole, "B"), (cut, "I")):
        runner = StageRunner(stage, Batch(16, None, None), [8, 8])
        for microbatch in range(2):
            runner.forward(microbatch, torch.ones(8, 16, dtype=torch.float64))
            run = runner.backward if kind == "B" else runner.backward_input
            of_inputs.append(run(microbatch, gradient))
        if kind == "I":
            assert all(parameter.grad is None for parameter in stage.parameters())
            assert runner.in_flight == 2
            for microbatch in range(2):
                runner.backward_weight(microbatch)
        assert runner.in_flight == 0
    assert of_inputs[0] is not None
    for of_input in of_inputs:
        assert of_input is not None
        assert torch.equal(of_input, of_inputs[0])
    for one, other in zip(whole.parameters(), cut.parameters(), strict=True):
        assert one.grad is not None
        assert other.grad is not None
        assert torch.equal(one.grad, other.grad)
