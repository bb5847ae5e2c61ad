import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pipeline.__main__ import command, main
from pipeline.executor import StepProfile
from pipeline.plan import build_plan
from pipeline.report import RankProfile, render_profile

ROOT = Path(__file__).parents[2]
EXPECTED = {0: 0.698788, 45: 0.243551, 49: 0.231414}
ROUNDING = 2e-6  # kernels of other processors round otherwise: 0.243552 has been seen


def losses(output: str) -> dict[int, float]:
    return {
        int(step): float(loss)
        for step, loss in re.findall(r"^step +(\d+)  loss (\S+)$", output, re.MULTILINE)
    }


def assert_expected(output: str) -> None:
    found = losses(output)
    assert {step: found[step] for step in EXPECTED} == pytest.approx(EXPECTED, abs=ROUNDING, rel=0)


def invoke(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(command, arguments, env=environment)


def rank_environment(rank: int = 0, world: int = 1) -> dict[str, str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(world),
        "LOCAL_WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "GLOO_SOCKET_IFNAME": "lo",
    }


@pytest.mark.parametrize("schedule", ["monolith", "manual"])
def test_one_process_trains_to_the_course_s_losses(schedule: str) -> None:
    result = invoke("--schedule", schedule)
    assert_expected(result.output)
    assert list(losses(result.output)) == [*range(0, 50, 5), 49]


@pytest.mark.gloo
@pytest.mark.parametrize("schedule", ["naive", "gpipe", "1f1b"])
def test_one_rank_trains_to_the_course_s_losses(schedule: str) -> None:
    result = invoke("--schedule", schedule, "--backend", "gloo", **rank_environment())
    assert_expected(result.output)


@pytest.mark.gloo
@pytest.mark.parametrize("schedule", ["zbv", "dualpipe"])
def test_two_ranks_with_two_stages_each_train_to_the_course_s_losses(schedule: str) -> None:
    """They print once: the second direction's last stage has the same loss."""
    run = launch(2, "--schedule", schedule, "--policy", "async")
    assert run.returncode == 0, run.stderr
    assert_expected(run.stdout)
    assert run.stdout.count("step    0 ") == 1


def launch(ranks: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    launcher += ["--local-addr", "127.0.0.1", "--nproc-per-node", str(ranks)]
    return subprocess.run(
        [*launcher, "-m", "pipeline", "--backend", "gloo", "--timeout", "60", *arguments],
        cwd=ROOT,
        env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.mark.gloo
def test_four_ranks_train_to_the_course_s_losses_and_the_last_one_reports() -> None:
    run = launch(4, "--profile")
    assert run.returncode == 0, run.stderr
    assert_expected(run.stdout)
    assert run.stdout.count("step    0 ") == 1
    peaks = re.findall(r"^ +\d +\S+% +\S+% +(\d+)$", run.stdout, re.MULTILINE)
    assert peaks == ["4", "3", "2", "1"]
    assert "bubble planned   0.2727 of all ranks' time" in run.stdout


def test_a_profile_names_the_denominator_of_each_share() -> None:
    plan = build_plan("gpipe", 2, 4)
    steps = StepProfile(3.0, 5.0, 4), StepProfile(5.0, 4.0, 4)
    ranks = [RankProfile(step, wall=10.0) for step in steps]
    assert render_profile(plan, ranks).splitlines() == [
        "gpipe  world=2  chunks=4",
        "rank  compute  waiting  in flight (peak)",
        "   0    30.0%    50.0%          4",
        "   1    50.0%    40.0%          4",
        "bubble measured  0.6000 of all ranks' step time is not compute",
        "bubble planned   0.2000 of all ranks' time, at F = B = 1: makespan 10, idle 2 per rank",
    ]


def test_the_planned_bubble_of_a_split_backward_says_at_which_costs() -> None:
    plan = build_plan("dualpipev", 4, 8)
    ranks = [RankProfile(StepProfile(1.0, 1.0, 1), wall=2.0)] * 4
    assert render_profile(plan, ranks).splitlines()[-1] == (
        "bubble planned   0.1111 of all ranks' time, at F = I = W = 1, B = 2: "
        "makespan 54, idle 6 per rank"
    )


WRONG = {
    "unknown schedule": (["--schedule", "zigzag"], {}, "'zigzag' is not one of 'monolith'"),
    "no steps": (["--steps", "0"], {}, "'--steps': 0 is not in the range x>=1"),
    "no ranks": (["--schedule", "1f1b"], {}, "torchrun --nproc-per-node 4 -m pipeline"),
    "profile of one process": (["--schedule", "manual", "--profile"], {}, "manual has none"),
    "too many chunks": (["--chunks", "64"], rank_environment(), "32 samples cannot fill 64 chunks"),
    "too many ranks": (["--layers", "3"], rank_environment(0, 4), "3 layers cannot fill 4 stages"),
    "nccl on the CPU": (["--backend", "nccl", "--device", "cpu"], rank_environment(), "--device"),
}


@pytest.mark.parametrize("case", WRONG)
def test_bad_usage_ends_in_one_line_that_helps(
    case: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, environment, message = WRONG[case]
    monkeypatch.setattr(sys, "argv", ["pipeline", *arguments])
    monkeypatch.setattr("signal.signal", lambda *args: None)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as exit_:
        main()
    printed = capsys.readouterr()
    assert exit_.value.code == 2
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1
    assert message in printed.err


def test_only_rank_0_says_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["pipeline", "--chunks", "64"])
    monkeypatch.setattr("signal.signal", lambda *args: None)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    for name, value in rank_environment(1, 2).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as exit_:
        main()
    assert exit_.value.code == 2
    assert capsys.readouterr().err == ""


@pytest.mark.gloo
def test_a_message_that_fails_ends_in_one_line_that_names_its_action(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*args: object) -> None:
        error = RuntimeError("[gloo/unbound_buffer.cc:78] Timed out waiting 9ms for send. Sorry")
        error.add_note("in 0SEND_F1")
        raise error

    monkeypatch.setattr(sys, "argv", ["pipeline", "--backend", "gloo"])
    monkeypatch.setattr("signal.signal", lambda *args: None)
    monkeypatch.setattr("pipeline.train.run_step", fail)
    for name, value in rank_environment().items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as exit_:
        main()
    assert exit_.value.code == 1
    assert capsys.readouterr().err == "error: rank 0 in 0SEND_F1: Timed out waiting 9ms for send\n"
