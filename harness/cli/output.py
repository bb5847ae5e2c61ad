"""Where reports go: the formats, and a file that is whole or not there at all."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.case import UsageError
from harness.cli.stream import is_coloured, is_terminal, note, say, tell
from harness.findings import Report
from harness.report import dumps

FORMATS = ("text", "json", "junit", "sarif", "github")


@dataclass(frozen=True, slots=True)
class Output:
    """How the reports of one command are shown: ``--format``, ``-o``, ``-q``.

    ``full``: write as on a full disk (``--nemesis full-disk``).
    """

    format: str = "text"
    file: str | None = None
    quiet: bool = False
    full: bool = False

    @property
    def shows_progress(self) -> bool:
        """Whether to draw progress on stderr."""
        return not self.quiet and is_terminal(sys.stderr)

    def require(self) -> None:
        """Refuse, before anything runs, a file that cannot be written: UsageError."""
        if self.file is not None and self.file != "-":
            _require_writable(self.file)

    def show(self, reports: Sequence[Report]) -> int:
        """Write the reports and return the exit status.

        A file that fails now costs exit status 2, but not the report: that goes to stdout.
        """
        status = exit_status(reports)
        for report in reports:
            if report.interrupted:
                run = report.cases.run
                tell(f"interrupted after {run} case{'s' * (run != 1)} of {report.target}")
        if self.file is None or self.file == "-":
            self._say(reports)
            return status
        try:
            self._write(dumps(reports, self.format))
        except OSError as error:
            tell(f"cannot write {self.file}: {error.strerror}; the report is on standard output")
            say(dumps(reports, self.format))
            return 2
        if not self.quiet:
            from harness.report.text import headline

            for report in reports:
                note(headline(report))
        return status

    def write(self, text: str) -> int:
        """Write what is no report, to the file or stdout; the exit status.

        A file that fails now costs exit status 2, but not the text: that goes to stdout.
        """
        if self.file is None or self.file == "-":
            say(text)
            return 0
        try:
            self._write(text)
        except OSError as error:
            tell(f"cannot write {self.file}: {error.strerror}; it is on standard output")
            say(text)
            return 2
        return 0

    def show_error(self, report: Report) -> None:
        """Write the report of a check that could not be made, at least to stdout.

        The reason has been told already; that the file cannot be written may well be it.
        """
        text = dumps([report], self.format)
        if self.file is not None and self.file != "-":
            with contextlib.suppress(UsageError, OSError):
                self.require()
                self._write(text)
                return
        say(text)

    def _write(self, text: str) -> None:
        assert self.file is not None
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        _write(Path(self.file), text)

    def _say(self, reports: Sequence[Report]) -> None:
        if self.format != "text":
            say(dumps(reports, self.format))
            return
        from harness.report.text import render_all

        shown = [report for report in reports if not self.quiet or report.findings]
        if shown:
            width = shutil.get_terminal_size().columns if is_terminal(sys.stdout) else None
            say(render_all(shown, color=is_coloured(sys.stdout), width=width))


def exit_status(reports: Sequence[Report]) -> int:
    """1 if any has findings, else 2 if any could not be made, else 0."""
    codes = {report.exit_code for report in reports}
    return next((code for code in (1, 2) if code in codes), 0)


def _require_writable(file: str) -> None:
    path = Path(file)
    folder = path.resolve().parent
    if path.is_dir():
        raise UsageError(f"-o {file} is a folder: name a file in it")
    if not folder.is_dir():
        raise UsageError(f"-o {file}: there is no folder {path.parent}, create it first")
    try:
        if path.exists():
            with path.open("ab"):
                pass
        if _is_replaced(path):
            tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise UsageError(
            f"-o {file} cannot be written ({error.strerror}): name a file in a folder of yours"
        ) from None


def _is_replaced(path: Path) -> bool:
    """Whether writing means a new file in its place; a device or pipe is written into."""
    return not path.exists() or stat.S_ISREG(path.stat().st_mode)


def _write(path: Path, text: str) -> None:
    data = text.encode()
    if not _is_replaced(path):
        path.write_bytes(data)
        return
    path = path.resolve()  # a link stays one
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(_mode(path))
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _mode(path: Path) -> int:
    if path.exists():
        return stat.S_IMODE(path.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
