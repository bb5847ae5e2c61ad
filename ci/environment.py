"""Create or refresh `.venv`; run by `ci/setup` under the Python to build it with.

`.venv/.setup` tells what state the environment is in: the fingerprint of what it was made
from, or `incomplete` while it is being changed, so that one cut short is never trusted.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("pyproject.toml", "ci/constraints.txt", "ci/environment.py")
INCOMPLETE = "incomplete"

Version = tuple[int, int]


def fingerprint(root: Path) -> str:
    """Sum up what `.venv` is made from, and what lies in it: uv or a person may change that."""
    digest = hashlib.sha256()
    for source in SOURCES:
        digest.update((root / source).read_bytes())
    installed = (path.name for path in root.glob(".venv/lib/python3*/site-packages/*.dist-info"))
    digest.update("\n".join(sorted(installed)).encode())
    return digest.hexdigest()


def recorded(root: Path) -> str:
    """Read the state `.venv` was left in; empty when none was ever written."""
    state = root / ".venv" / ".setup"
    return state.read_text().strip() if state.is_file() else ""


def record(root: Path, state: str) -> None:
    """Write the state that `recorded` will read."""
    (root / ".venv" / ".setup").write_text(state + "\n")


def running_version(root: Path) -> Version | None:
    """Ask `.venv` for its Python version; None where its Python does not start."""
    probe = "import sys; print(*sys.version_info[:2])"
    try:
        answer = subprocess.run(
            [root / ".venv/bin/python", "-I", "-c", probe],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    major, minor = map(int, answer.stdout.split())
    return major, minor


def belongs_here(root: Path) -> bool:
    """Whether `.venv` was made for this place: its scripts hold its path, and break when moved."""
    activate = root / ".venv/bin/activate"
    return activate.is_file() and str(root / ".venv") in activate.read_text()


def reason_to_rebuild(root: Path, wanted: Version | None) -> str:
    """Why `.venv` must be made anew; empty where what is there can be kept.

    `wanted` is the version it must have; None takes any that the project supports.
    """
    if not (root / ".venv").exists():
        return "it is missing"
    if recorded(root) == INCOMPLETE:
        return "its last set-up was cut short"
    version = running_version(root)
    if version is None:
        return "its Python does not run"
    if not belongs_here(root):
        return "it was made for another place"
    if version < (3, 11) or (wanted is not None and version != wanted):
        return f"it has Python {version[0]}.{version[1]}"
    return ""


def install(root: Path) -> None:
    """Put the project and its development tools into `.venv`, at the pinned versions.

    Raises `subprocess.CalledProcessError` when pip fails; pip has said why by then.
    """
    python = str(root / ".venv/bin/python")
    pip = [python, "-I", "-m", "pip", "--disable-pip-version-check", "--no-input", "-qq"]
    pinned = [*pip, "install", "--constraint", "ci/constraints.txt"]
    if subprocess.run([*pip, "--version"], capture_output=True, check=False).returncode:
        ensurepip = [python, "-I", "-m", "ensurepip"]  # an environment made by uv has no pip
        subprocess.run(ensurepip, cwd=root, check=True, stdout=subprocess.DEVNULL)
    # First pip, for its --group, and setuptools, so that the build takes the pinned one.
    subprocess.run([*pinned, "pip", "setuptools"], cwd=root, check=True)
    project = ["--no-build-isolation", "--editable", ".", "--group", "dev"]
    subprocess.run([*pinned, *project], cwd=root, check=True)


@contextmanager
def alone(root: Path) -> Iterator[None]:
    """Hold off another set-up of this tree until this one is done; released even by a kill."""
    with (root / "ci/environment.py").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def set_up(root: Path, wanted: Version | None) -> None:
    """Bring `.venv` up to date, saying in one line what is done; nothing where it is fresh."""
    rebuild = reason_to_rebuild(root, wanted)
    if not rebuild and recorded(root) == fingerprint(root):
        return
    start = time.monotonic()
    before = ""
    if rebuild:
        version = ".".join(map(str, sys.version_info[:3]))
        print(f"setup: creating .venv with Python {version} ({rebuild}); a minute or two", end="")
        print(" ...", flush=True)
        shutil.rmtree(root / ".venv", ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", root / ".venv"], check=True)
    else:
        print("setup: bringing .venv up to date with ci/constraints.txt ...", flush=True)
        before = recorded(root)
    record(root, INCOMPLETE)
    try:
        install(root)
    except subprocess.CalledProcessError:
        record(root, before)  # pip undoes what it cannot finish: stale, and not broken
        raise
    record(root, fingerprint(root))
    print(f"setup: .venv is ready ({time.monotonic() - start:.0f} s)", flush=True)


def main(arguments: list[str]) -> int:
    """Set up the tree this file lies in; `--exactly` insists on the running Python's version."""
    wanted = sys.version_info[:2] if "--exactly" in arguments else None
    try:
        with alone(ROOT):
            set_up(ROOT, wanted)
    except subprocess.CalledProcessError as error:
        step = " ".join(map(str, error.cmd[:6]))
        print(f"error: setting up .venv failed at: {step} ...", file=sys.stderr)
        print("hint: the lines above say why; mend it, then `make setup` again", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("error: set-up interrupted; `make setup` starts it over", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
