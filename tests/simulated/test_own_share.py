"""What a process has to itself every simulated rank has to itself, in one process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import harness
from harness.api import shared_world
from harness.worlds import Program, Simulated, World
from tests.conformance.programs import above, processes
from tests.programs import endings, simulated
from tests.worlds.call import Call
from tests.worlds.running import assert_clean, run

SEEDED = [Simulated(), Simulated(interleaving="random:1"), Simulated(interleaving="random:2")]


@pytest.mark.gloo
@pytest.mark.parametrize("how", SEEDED, ids=lambda how: how.interleaving or "in turn")
def test_random_numbers_are_those_of_a_real_rank(sim: World, how: Simulated) -> None:
    results = []
    for world in (sim, shared_world("gloo")):
        outcome = run(world, simulated.draws, seed=7, simulated=how)
        assert_clean(outcome)
        results.append([rank.result for rank in outcome.ranks])
    assert results[0] == results[1]
    assert results[0][0][:-3] == results[0][1][:-3]
    assert results[0][0][-3:] != results[0][1][-3:]


def test_a_global_of_the_user_s_module_is_the_rank_s_own(sim: World) -> None:
    outcome = run(sim, simulated.counts_by_a_global, 3, fresh=True)
    assert [rank.result for rank in outcome.ranks] == [1, 2, 3]


def test_modules_are_kept_from_run_to_run_but_for_fresh_ranks(sim: World) -> None:
    def counts(*, fresh: bool) -> list[int]:
        outcome = run(sim, simulated.counts_by_a_global, 2, fresh=fresh)
        return [rank.result for rank in outcome.ranks]

    first, second = counts(fresh=False), counts(fresh=False)
    assert second == [first[0] + 1, first[1] + 2]
    assert counts(fresh=True) == [1, 2]


def test_environment_arguments_paths_warnings_and_logging(sim: World) -> None:
    for how in (*SEEDED, Simulated(guard=True)):
        outcome = run(sim, simulated.has_a_share_of_everything, simulated=how)
        assert_clean(outcome)
        for rank in outcome.ranks:
            me = rank.rank
            assert rank.result == {
                "environment": (f"{me}", f"{me}", f"{me}"),
                "arguments": f"--rank={me}",
                "path": f"/of/{me}",
                "dtype": "torch.float64" if me else "torch.float32",
                "level": me,
                "format": f"{me} %(message)s",
                "warnings": [me],
            }


SCRIPT = """
import sys, helper
import torch.distributed as dist

dist.init_process_group("gloo")
me = dist.get_rank()
assert sys.modules["__main__"].me == me and __name__ == "__main__"
helper.seen.append(me)
dist.barrier()
assert sys.modules["__main__"].me == me
import helper
assert helper.seen == [me], helper.seen
print(sys.argv[1:], end="")
dist.destroy_process_group()
"""


def test_a_script_is_main_on_every_rank_and_so_are_its_helpers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "helper.py").write_text("seen = []\n")
    lines: list[tuple[int, str]] = []
    report = harness.run(
        str(tmp_path / "script.py"), 3, args=["a"], echo=lambda *line: lines.append(line)
    )
    assert report.findings == []
    assert sorted(lines) == [(rank, "['a']") for rank in range(3)]


def test_output_is_kept_apart_and_told_line_by_line(sim: World) -> None:
    lines: dict[int, list[str]] = {0: [], 1: []}
    how = Simulated(interleaving="random:3")
    program = Program(Call(endings.prints_a_partial_line), simulated=how)
    outcome = sim.run(program, 2, timeout=60, echo=lambda rank, line: lines[rank].append(line))
    assert lines == {rank: [f"whole {rank}", f"partial {rank}"] for rank in (0, 1)}
    assert [rank.output for rank in outcome.ranks] == [
        "whole 0\npartial 0\n",
        "whole 1\npartial 1\n",
    ]


def test_whoever_is_told_may_print_it_to_either_stream(
    sim: World, capsys: pytest.CaptureFixture[str]
) -> None:
    def echo(rank: int, line: str) -> None:
        print(line, file=sys.stderr if rank else sys.stdout)

    run(sim, endings.prints_a_partial_line, echo=echo)
    assert capsys.readouterr() == ("whole 0\npartial 0\n", "whole 1\npartial 1\n")


def test_lines_are_told_while_the_run_goes_on(sim: World) -> None:
    told: list[str] = []
    program = Program(Call(endings.steps_for_ever))
    sim.run(program, 2, timeout=60, limit=0.3, echo=lambda _, line: told.append(line))
    assert told.count("step") > 2


def test_what_a_rank_registers_for_its_end_runs_there(sim: World) -> None:
    outcome = run(sim, simulated.registers_an_end)
    assert_clean(outcome)
    assert [rank.output for rank in outcome.ranks] == [f"the end of {rank}\n" for rank in (0, 1)]


def test_a_rank_s_handlers_take_its_own_signals(sim: World) -> None:
    outcome = run(sim, simulated.signals_itself)
    assert_clean(outcome)
    assert [rank.result for rank in outcome.ranks] == [([10, 10], True)] * 2
    assert run(sim, simulated.terminates_itself).ranks[1].exit_status == -15


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_module_of_torch_that_a_rank_imports_late_has_no_rank_s_group(
    sim: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its functions have the whole group for a default, as far as there is one by then."""
    for name in [name for name in sys.modules if name.startswith("torch.distributed.nn")]:
        monkeypatch.delitem(sys.modules, name)
    assert_clean(run(sim, above.collectives_of_autograd))


def test_a_function_that_a_module_took_in_an_earlier_run_is_the_rank_s_own_in_a_later_one(
    sim: World,
) -> None:
    for _ in range(2):
        outcome = run(sim, processes.a_clock_that_goes_on_in_a_sleep)
        assert_clean(outcome)
        ended = outcome.trace.ranks[0].ended_ns
        assert ended is not None
        assert ended > 200_000_000, "it slept in virtual time"
