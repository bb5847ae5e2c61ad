"""What a world mark may say, and the plugin in a project that has no worlds."""

from __future__ import annotations

from typing import Any

import pytest

from harness.case import UsageError
from harness.pytest_plugin.marks import specs_of

pytest_plugins = ["pytester"]


def ids(*args: Any, option: str | None = None, **kwargs: Any) -> list[tuple[int, str, str]]:
    mark = pytest.mark.world(*args, **kwargs).mark
    return [(spec.size, spec.backend, spec.id) for spec in specs_of(mark, option)]


def test_one_size_and_backend_need_no_parameter() -> None:
    assert ids(size=4) == ids(4) == [(4, "sim", "")]
    assert ids(size=2, backend="nccl") == [(2, "nccl", "")]


def test_lists_give_their_product() -> None:
    assert ids(size=[2, 3]) == [(2, "sim", "size=2"), (3, "sim", "size=3")]
    assert ids(size="1..2", backend=["gloo", "nccl"]) == [
        *[(1, "gloo", "size=1-gloo"), (1, "nccl", "size=1-nccl")],
        *[(2, "gloo", "size=2-gloo"), (2, "nccl", "size=2-nccl")],
    ]


def test_the_option_replaces_the_marks_backends() -> None:
    assert ids(size=2, backend=["gloo", "nccl"], option="gloo") == [(2, "gloo", "")]


@pytest.mark.parametrize(
    ("kwargs", "reason"),
    [
        ({}, "size= is missing"),
        ({"size": 0}, "size 0 is out of range"),
        ({"size": []}, "give a number"),
        ({"size": True}, "give a number"),
        ({"size": 2.5}, "give a number"),
        ({"size": 2, "ranks": 3}, "ranks is not known"),
        ({"size": 2, "backend": "glo"}, "did you mean gloo"),
        ({"size": 2, "backend": []}, "is empty"),
        ({"size": 2, "backend": 3}, "give a name"),
    ],
)
def test_a_mark_that_cannot_be_says_why(kwargs: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        ids(**kwargs)


def test_a_bad_mark_is_one_line_at_collection(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.world(sizes=2)
        def test_it(rank):
            pass
        """
    )
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["@pytest.mark.world: sizes is not known: give size=*"])


@pytest.mark.parametrize(
    "option",
    ["--harness-backend=glo", "--harness-seed=x", "--harness-timeout=0"],
)
def test_a_bad_option_is_refused_before_any_test(pytester: pytest.Pytester, option: str) -> None:
    result = pytester.runpytest_inprocess(option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: *{option.partition('=')[2]}*"])


def test_a_project_without_worlds_does_not_import_torch(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_nothing(pytestconfig):
            assert pytestconfig.pluginmanager.hasplugin("harness")
            assert "torch" not in sys.modules
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--strict-markers")
    result.assert_outcomes(passed=1)


def test_the_mark_is_listed_with_its_meaning(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess("--markers")
    result.stdout.fnmatch_lines(["@pytest.mark.world(size, backend='sim'): run the test's body*"])
