"""``@pytest.mark.world`` on real ranks, in sessions of their own."""

from __future__ import annotations

import pytest

import harness.pytest_plugin

pytest_plugins = ["pytester"]

WORLD_TESTS = """
import unittest
import warnings

import pytest
import torch
import torch.distributed as dist

CONSTANT = 10


class Point:
    def __init__(self, x):
        self.x = x


@pytest.fixture
def point():
    return Point(3)


@pytest.fixture
def handle(tmp_path):
    with (tmp_path / "file").open("w") as file:
        yield file


@pytest.fixture
def squared_rank(rank):
    return rank * rank


@pytest.mark.world(size=[1, 2])
def test_all_reduce(rank, world_size):
    total = torch.tensor(rank)
    dist.all_reduce(total)
    assert total == sum(range(world_size))
    assert dist.get_world_size() == world_size


@pytest.mark.world(size=2)
@pytest.mark.parametrize("factor", [1, 2])
def test_fixtures_and_globals_travel(rank, point, tmp_path, factor):
    assert point.x * factor + CONSTANT == 3 * factor + 10
    (tmp_path / str(rank)).write_text("here")
    dist.barrier()
    assert len(list(tmp_path.iterdir())) == 2


class TestMethods:
    offset = 5

    @pytest.mark.world(2)
    def test_method(self, rank):
        assert rank + self.offset in (5, 6)


@pytest.mark.world(size=2)
def test_raises_inside(rank):
    with pytest.raises(ValueError, match="yes"):
        raise ValueError("yes")


@pytest.mark.world(size=2)
def test_one_rank_fails(rank):
    print("said by", rank)
    got = [1, 2, rank]
    assert got == [1, 2, 0], "the reason"


@pytest.mark.world(size=2)
def test_all_ranks_fail_alike():
    values = {"a": 1, "b": 2}
    assert values == {"a": 1, "b": 3}


@pytest.mark.world(size=2)
def test_deadlock(rank):
    buffer = torch.ones(2)
    dist.send(buffer, 1 - rank)
    dist.recv(buffer, 1 - rank)


@pytest.mark.world(size=2)
def test_fails_while_the_other_waits(rank):
    if rank == 1:
        pytest.fail("on purpose")
    dist.barrier()


@pytest.mark.world(size=2)
def test_skipped(rank):
    pytest.skip("not here")


@pytest.mark.world(size=2)
def test_xfailed(rank):
    pytest.xfail("not yet")


@pytest.mark.world(size=2)
@pytest.mark.xfail(raises=AssertionError, strict=True)
def test_marked_xfail(rank):
    assert rank == 5


@pytest.mark.world(size=2)
def test_warns(rank):
    if rank == 0:
        work = dist.isend(torch.ones(1), 1)
    else:
        dist.recv(torch.ones(1), 0)
    dist.barrier()  # the message has come, and yet nobody waited for it


@pytest.mark.world(size=2)
def test_unpicklable_fixture(handle):
    pass


@pytest.mark.world(size=2)
def test_local_fixture(capsys):
    pass


@pytest.mark.world(size=2)
def test_fixture_of_rank(squared_rank):
    pass


@pytest.mark.world(size=2)
async def test_async():
    pass


class TestOfUnittest(unittest.TestCase):
    @pytest.mark.world(size=2)
    def test_unittest(self):
        pass


def test_rank_without_a_world(rank):
    pass
"""


def documented_example() -> str:
    """Take the example out of the plugin's own documentation."""
    lines = (harness.pytest_plugin.__doc__ or "").splitlines()
    code = "\n".join(line[4:] for line in lines if line.startswith((">>> ", "... ")))
    assert "def test_" in code
    return "import pytest\nimport torch\nimport torch.distributed as dist\n\n\n" + code


@pytest.mark.gloo
def test_worlds_of_tests_pass_fail_skip_and_warn(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_worlds=WORLD_TESTS, test_documented=documented_example())
    result = pytester.runpytest_subprocess("-rA", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=9, failed=5, errors=5, skipped=1, xfailed=2, warnings=1)
    lines = result.stdout
    lines.fnmatch_lines(
        [
            "*_ test_one_rank_fails _*",
            "rank 1 of 2 on sim: AssertionError: the reason",
            "rank 1: AssertionError",
            "  test_worlds.py:* in test_one_rank_fails",
            '    assert got == [[]1, 2, 0], "the reason"',
            "E   AssertionError: the reason",
            "E   assert [[]1, 2, 1] == [[]1, 2, 0]",
            "E     At index 2 diff: 1 != 0",
            "again: pytest 'test_worlds.py::test_one_rank_fails'",
            "rank 0 | said by 0",
            "*_ test_all_ranks_fail_alike _*",
            "ranks 0, 1: AssertionError",
            "E     Differing items:",
            "*_ test_deadlock _*",
            "ranks 0, 1 of 2 on sim: deadlock: ranks 0 and 1 wait for each other",
            "error[[]deadlock]: ranks 0 and 1 wait for each other",
            "  rank 0  send to 1 * test_worlds.py:* in test_deadlock",
            "*_ test_fails_while_the_other_waits _*",
            "rank 1: Failed",
            "E   Failed: on purpose",
        ]
    )
    lines.fnmatch_lines_random(
        [
            "*fixture 'handle' (TextIOWrapper) cannot be sent to the ranks*",
            "*fixture 'capsys' acts on pytest's own process*",
            "*fixture 'squared_rank' asks for 'rank'*",
            "*an async test cannot run in a world*",
            "*a unittest method cannot run in a world*",
            "*fixture 'rank' is given to tests marked @pytest.mark.world(size=?)*",
            "*HarnessWarning: [[]unawaited-request]*",
            "SKIPPED [[]1] test_worlds.py:*: not here (rank 0)",
            "XFAIL test_worlds.py::test_xfailed - not yet (rank 0)",
            "PASSED test_worlds.py::test_all_reduce[[]size=2]",
        ]
    )
    lines.no_fnmatch_line("*pytest_plugin*")
    lines.no_fnmatch_line("*orphan-wait*")


@pytest.mark.gloo
def test_worlds_run_in_the_workers_of_xdist(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        import torch.distributed as dist

        @pytest.mark.world(size=2)
        @pytest.mark.parametrize("turn", range(2))
        def test_barrier(rank, turn):
            dist.barrier()
            assert rank == 0, "rank 1 fails"
        """
    )
    pytest.importorskip("xdist")
    result = pytester.runpytest_subprocess("-n", "1", "-p", "no:cacheprovider")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["rank 1: AssertionError", "E   AssertionError: rank 1 fails"])
