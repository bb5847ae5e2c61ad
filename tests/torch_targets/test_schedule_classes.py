"""Schedule classes of torch are checked as schedules of ours are, and so are those made of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch.distributed.pipelining.schedules as theirs

import harness
from harness import torch_pipelining
from harness.case import Case, UsageError
from harness.execute import execute
from harness.findings import Finding, Report
from harness.options import check_options
from harness.session import prepare, shared_world
from harness.stream import Limits, stream
from harness.targets import Target, TargetError, parse_target
from harness.targets.torch_classes import describe_class, line_of
from harness.worlds import Outcome
from tests.torch_targets import schedules
from tests.torch_versions import before, since

SEVERAL_STAGES = since("2.9", "runs several stages a rank in its old way, which is wrong on gloo")

UNEVEN = since("2.9", "checks the shapes of microbatches itself")

OWN_CLASSES = since("2.9", "has other ways in, for which these classes are not written")

CLASSES = torch_pipelining.names()
HERE = "tests/torch_targets/schedules.py"
SMALL: dict[str, Any] = {"world_size": (1, 2, 3), "chunks": (2, 3, 4), "confirm": False}


def named(name: str) -> str:
    return f"torch.distributed.pipelining:{name}"


def prepared(target: str) -> Target:
    return prepare(target, "check", check_options())


def only(report: Report) -> Finding:
    (finding,) = report.findings
    return finding


def test_torch_has_the_schedules_that_are_tested() -> None:
    assert {"Schedule1F1B", "ScheduleGPipe", "ScheduleInterleaved1F1B"} <= set(CLASSES)
    assert {"ScheduleLoopedBFS", "ScheduleInterleavedZeroBubble"} <= set(CLASSES)
    assert "ScheduleZBVZeroBubble" in CLASSES


@pytest.mark.parametrize("name", CLASSES)
def test_each_of_torch_s_schedules_is_clean_in_all_semantics(name: str) -> None:
    if before("2.9") and torch_pipelining.holds_several(getattr(theirs, name)):
        pytest.skip(SEVERAL_STAGES.kwargs["reason"])
    report = harness.check(
        named(name), world_size=(1, 2, 4), chunks=(2, 4, 8), cases=5, confirm=False, strict=True
    )
    assert report.findings == []
    assert (report.cases.clean, report.cases.refused) == (5, 0)
    assert report.tried["compared"] == 5
    assert report.semantics == ("gloo", "buffered", "nccl-eager", "nccl-lazy")
    assert "batches that are multiples of chunks only" in str(report)


@pytest.mark.gloo
@pytest.mark.parametrize("name", ["Schedule1F1B", "ScheduleZBVZeroBubble"])
def test_they_are_clean_on_real_ranks(name: str) -> None:
    if before("2.9") and torch_pipelining.holds_several(getattr(theirs, name)):
        pytest.skip(SEVERAL_STAGES.kwargs["reason"])
    report = harness.check(
        f"torch.distributed.pipelining.schedules:{name}",
        backend="gloo", world_size=2, chunks=4, cases=2,
    )  # fmt: skip
    assert report.findings == []
    assert report.tried["compared"] == 2


@pytest.mark.nccl(gpus=2)
@pytest.mark.parametrize("name", CLASSES)
def test_they_are_clean_on_gpus(name: str) -> None:
    report = harness.check(named(name), backend="nccl", world_size=2, chunks=4, cases=2)
    assert report.findings == []


@UNEVEN
@pytest.mark.parametrize("name", CLASSES)
def test_uneven_microbatches_weigh_alike_in_torch_and_that_is_found(name: str) -> None:
    finding = only(harness.replay(f"{named(name)} world=1 chunks=3 batch=7"))
    assert (finding.code, finding.cause) == ("gradient-mismatch", "uneven-microbatches")
    assert "each microbatch's mean loss counts 0.3333, whatever its size" in finding.message
    assert "7 is no multiple of 3" in finding.help


@UNEVEN
def test_uneven_microbatches_do_not_fit_torch_s_buffers_and_that_is_found() -> None:
    finding = only(harness.replay(f"{named('ScheduleGPipe')} world=2 chunks=3 batch=7"))
    assert (finding.code, finding.cause) == ("shape-mismatch", "uneven-microbatches")
    assert [op.action for op in finding.operations] == ["0SEND_F1", "1RECV_F1"]


@OWN_CLASSES
def test_a_class_that_weighs_uneven_microbatches_is_right() -> None:
    assert harness.replay(f"{HERE}:Weighted world=1 chunks=3 batch=7").findings == []
    finding = only(harness.replay(f"{HERE}:NotDivided world=1 chunks=3 batch=7"))
    assert (finding.code, finding.cause) == ("gradient-mismatch", "unknown")


@OWN_CLASSES
def test_a_loss_that_is_wrong_for_another_reason_is_not_laid_to_uneven_microbatches() -> None:
    finding = only(harness.replay(f"{HERE}:WeightedButItsLoss world=1 chunks=3 batch=7"))
    assert (finding.code, finding.cause) == ("loss-mismatch", None)
    assert "the gradients are right" in finding.message
    assert "torch" not in finding.help


@UNEVEN
@pytest.mark.gloo
def test_uneven_microbatches_are_found_on_real_ranks() -> None:
    case = f"{named('Schedule1F1B')} world=2 chunks=3 batch=7 backend=gloo"
    assert only(harness.replay(case)).cause == "uneven-microbatches"


@SEVERAL_STAGES
def test_a_campaign_draws_even_batches_and_shapes_that_torch_accepts() -> None:
    cases = stream(prepared(named("ScheduleDualPipeV")), Limits(), "sim")
    drawn = [next(cases) for _ in range(60)]
    for case in drawn:
        assert case.batch is not None
        assert case.chunks is not None
        assert case.batch % case.chunks == 0
        assert case.chunks >= 2 * case.world
    assert len({case.batch // case.chunks for case in drawn if case.batch and case.chunks}) > 2


def test_a_shape_that_torch_refuses_is_no_finding() -> None:
    with pytest.raises(UsageError, match=r"refuses this shape: Number of microbatches \(2\) must"):
        harness.replay(f"{named('Schedule1F1B')} world=4 chunks=2")
    with pytest.raises(UsageError, match="2 samples cannot be cut in 3 microbatches"):
        harness.replay(f"{named('ScheduleGPipe')} world=1 chunks=3 batch=2")
    report = harness.check(f"{HERE}:OnlyTwo", world_size=(2, 3), chunks=4, cases=3, confirm=False)
    assert report.findings == []
    assert report.refusals == {"OnlyTwo is for 2 ranks: got 3": report.cases.refused}


@SEVERAL_STAGES
def test_every_compute_is_told_with_its_microbatch() -> None:
    """Of a stage that is the first torch's I does nothing, and W all of it."""
    target = prepared(named("ScheduleZBVZeroBubble"))
    seen: list[Outcome] = []
    case = Case(target.text, 2, chunks=4, batch=8, layers=4, width=4, steps=1)
    execute(target, case, shared_world("sim"), 60.0, observe=seen.append)
    stand_ins = [torch_pipelining.StandIn(2, 4)] * 2
    made = theirs.ScheduleZBVZeroBubble(stand_ins, 4, loss_fn=print)  # type: ignore[arg-type]
    for history in seen[0].trace.ranks:
        computes = [f"{c.stage}{c.kind}{c.microbatch}" for c in history.computes]
        order = [str(action) for action in made.pipeline_order[history.rank] if action]
        assert computes == [action for action in order if not action.startswith("0I")]


@OWN_CLASSES
@pytest.mark.parametrize(
    "name", ["Mine", "Plain", "WaitsForItsSends", "Runtime", "OwnWay", "Delegates"]
)
def test_right_schedules_of_one_s_own_are_clean(name: str) -> None:
    report = harness.check(f"{HERE}:{name}", **SMALL, cases=4)
    assert report.findings == []
    assert report.tried["compared"] + report.cases.refused == 4


def test_an_order_that_is_made_in_the_first_step_is_an_order() -> None:
    """On two ranks, for torch's old way of running one is wrong on more."""
    report = harness.check(f"{HERE}:OrderWhenRun", world_size=2, chunks=2, cases=2, confirm=False)
    assert report.findings == []
    assert report.tried["compared"] == 2


def test_a_schedule_without_torch_s_runtime_is_run_with_the_stages_it_asks_for() -> None:
    report = harness.check(f"{HERE}:Lockstep", world_size=2, chunks=(2, 3), cases=3, confirm=False)
    assert report.findings == []
    assert prepared(f"{HERE}:Lockstep").depth(4) == 12


# name → code, cause, ranks of the shrunk case, the line that is named
FAULTS = {
    "NotDivided": ("gradient-mismatch", "scale:2", (0,), "stage.backward_one_chunk("),
    "LastLeftOut": ("gradient-mismatch", "missing-microbatch:1", (0,), "stage.backward_one_chunk("),
    "OtherOrder": ("message-swap", None, (0, 1), "get_bwd_send_ops("),
    "ReceivesFirst": ("deadlock", "order", (0, 1), "work.wait()"),
    "Greedy": ("memory-bound", None, (0,), "class Greedy("),
    "Twice": ("plan-invalid", None, (0,), "class Twice("),
    "TooEarly": ("plan-invalid", None, (0,), "class TooEarly("),
    "NoOrder": ("plan-invalid", None, (0,), "class NoOrder("),
    "OrderOfOne": ("plan-invalid", None, (1,), "class OrderOfOne("),
    "CannotBeMade": ("rank-error", None, (0,), "# in CannotBeMade"),
    "Idle": ("gradient-mismatch", "missing-microbatch:0,1", (0,), "class Idle("),
}


@OWN_CLASSES
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_at_its_line_of_the_user_s_file(name: str) -> None:
    code, cause, ranks, line = FAULTS[name]
    finding = only(harness.check(f"{HERE}:{name}", **SMALL, cases=4))
    shown = (finding.cause or "").split(": ")[0] or None
    assert (finding.code, shown, finding.ranks) == (code, cause, ranks)
    operation = finding.operations[0]
    assert Path(operation.file) == Path(HERE).absolute()
    assert line in Path(operation.file).read_text().splitlines()[operation.line - 1]
    case = Case.parse(finding.case)
    assert case.batch is not None
    assert case.batch % (case.chunks or 1) == 0


@OWN_CLASSES
@pytest.mark.gloo
def test_a_fault_is_confirmed_on_real_ranks() -> None:
    report = harness.check(f"{HERE}:ReceivesFirst", world_size=2, chunks=2, cases=1)
    assert only(report).confirmed_on == ("sim", "gloo")


@OWN_CLASSES
def test_classes_are_taken_from_python_as_well() -> None:
    finding = only(harness.check(schedules.NotDivided, **SMALL, cases=2))
    assert finding.cause == "scale:2"
    assert finding.case.startswith(f"{HERE}:NotDivided ")
    report = harness.check(theirs.ScheduleGPipe, world_size=2, chunks=2, cases=1, confirm=False)
    assert (report.findings, report.cases.clean) == ([], 1)
    assert report.target == "torch.distributed.pipelining.schedules:ScheduleGPipe"


@OWN_CLASSES
def test_classes_are_taken_from_a_module_as_well() -> None:
    target = "tests.torch_targets.schedules:NotDivided"
    finding = only(harness.check(target, world_size=1, chunks=2, cases=1, confirm=False))
    assert (finding.cause, Path(finding.operations[0].file).name) == ("scale:2", "schedules.py")


def test_torch_s_own_are_held_to_the_bound_of_ours_and_others_to_what_they_promise() -> None:
    assert prepared(named("Schedule1F1B")).promises == "1f1b"
    assert prepared(named("ScheduleLoopedBFS")).promises is None
    assert describe_class(schedules.Mine, "Mine").promises is None
    assert describe_class(schedules.Greedy, "Greedy").promises == "1f1b"


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (named("Schedul1F1B"), "did you mean Schedule1F1B?"),
        (named("PipelineScheduleMulti"), "is a base of schedules and has no order of its own"),
        (named("_ScheduleForwardOnly"), "has no backwards"),
        (f"{HERE}:Wants", "cannot be made as Wants(stage, n_microbatches, loss_fn=…): missing"),
        (f"{HERE}:Mein", "did you mean 'Mine'?"),
    ],
)
def test_what_is_no_schedule_is_refused_in_one_line(target: str, words: str) -> None:
    with pytest.raises(TargetError) as refused:
        prepared(target)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"promises": "1f1c"}, "X promises '1f1c': one of naive, gpipe, 1f1b"),
        ({"stages_per_rank": 0}, "the schedule's stages_per_rank is 0; give one of 1..64"),
        ({"placement": "w"}, "the schedule's placement is 'w'"),
        ({"placement": lambda world: [world]}, "placement(8) has 8; the ranks are 0..7"),
    ],
)
def test_attributes_that_say_nothing_are_refused(attributes: dict[str, Any], words: str) -> None:
    made = type("X", (schedules.Runtime,), attributes)
    with pytest.raises(TargetError) as refused:
        describe_class(made, "X")
    assert words in str(refused.value)


def test_a_schedule_is_checked_and_not_run() -> None:
    for target in (f"{HERE}:Mine", named("Schedule1F1B"), schedules.Mine):
        with pytest.raises(TargetError, match="is a schedule, which is checked"):
            harness.run(target, 2)


def test_a_class_is_found_by_its_line() -> None:
    origin = line_of(schedules.Greedy)
    assert Path(origin.file).read_text().splitlines()[origin.line - 1].startswith("class Greedy(")


def test_a_torch_that_lacks_something_is_told_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(torch_pipelining._NEEDED, "PipelineStage", ("no_such_method",))
    with pytest.raises(TargetError, match=r"lacks torch\.distributed\.pipelining\.PipelineStage"):
        torch_pipelining.api.__wrapped__()


def test_other_classes_are_not_taken_for_schedules() -> None:
    class Step:
        def __init__(self, stage: object, comms: object, batch: object, chunks: object) -> None:
            pass

    assert parse_target(Step, for_command="check").kind == "step"
