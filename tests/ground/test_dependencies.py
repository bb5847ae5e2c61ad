"""The pins name one exact version of everything that the ranges bring in."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.torch_versions import is_pinned

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CUDA = re.compile(r"nvidia-|cuda-|triton")  # what a CUDA build of torch adds to the CPU build's
PINNED = pytest.mark.skipif(not is_pinned(), reason="another torch needs other packages")


def pins() -> dict[str, Version]:
    lines = (ROOT / "ci/constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): Version(version) for name, version in pairs}


def direct() -> list[Requirement]:
    groups = PROJECT["project"]["dependencies"], PROJECT["dependency-groups"]["dev"]
    build = PROJECT["build-system"]["requires"]
    return [Requirement(text) for text in (*groups[0], *groups[1], *build)]


def installed_closure() -> set[str]:
    """Every package that the direct ones need here, as their installed metadata says."""
    seen: set[str] = set()
    waiting = [canonicalize_name(requirement.name) for requirement in direct()]
    while waiting:
        name = waiting.pop()
        if name in seen or CUDA.match(name):
            continue
        seen.add(name)
        needed = map(Requirement, metadata.requires(name) or [])
        waiting += [
            canonicalize_name(r.name)
            for r in needed
            if r.marker is None or r.marker.evaluate({"extra": ""})
        ]
    return seen


def test_each_dependency_is_pinned_inside_its_range() -> None:
    pinned = pins()
    wrong = [
        str(requirement)
        for requirement in direct()
        if (version := pinned.get(canonicalize_name(requirement.name))) is None
        or version not in requirement.specifier
    ]
    assert wrong == []


@PINNED
def test_what_the_dependencies_need_is_pinned_too() -> None:
    assert sorted(installed_closure() - set(pins())) == []


@PINNED
def test_nothing_is_pinned_that_nothing_needs() -> None:
    assert sorted(set(pins()) - installed_closure() - {"pip"}) == []


def test_torch_is_pinned_without_naming_a_build() -> None:
    assert str(pins()["torch"]) == "2.13.0"


def test_users_get_ranges_and_no_exact_version() -> None:
    exact = [str(r) for r in direct() if any(s.operator in {"==", "==="} for s in r.specifier)]
    assert exact == []


def test_the_pinned_pip_can_install_a_dependency_group() -> None:
    assert pins()["pip"] >= Version("25.1")
