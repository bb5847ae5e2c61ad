"""Writing to the terminal, a pipe that may close, a disk that may be full."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TextIO


class StdoutError(Exception):
    """Standard output takes no more (not a closed pipe: that is silent)."""


def is_coloured(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal that shows colours, and the user has not said no."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return is_terminal(stream)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether someone watches this stream."""
    return stream is not None and not stream.closed and stream.isatty()


def tell(message: str) -> None:
    """Print one error line on stderr, whatever the message holds."""
    line = " ".join(message.split())
    head = "\x1b[1;31merror:\x1b[0m" if is_coloured(sys.stderr) else "error:"
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"{head} {line}\n")
        sys.stderr.flush()


def note(text: str) -> None:
    """Print a line on stderr; silent where nobody can read it."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def say(text: str) -> None:
    """Print text on stdout with one newline at its end; silent when the reader has gone.

    StdoutError, with the system's reason, when it cannot be written.
    """
    if sys.stdout is None:  # closed before the command began
        raise StdoutError("it is closed")
    encoding = sys.stdout.encoding or "utf-8"
    shown = text.encode(encoding, "backslashreplace").decode(encoding)
    try:
        sys.stdout.write(shown if shown.endswith("\n") else shown + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_stdout()
    except OSError as error:
        _discard_stdout()
        raise StdoutError(error.strerror) from error


def flush(status: int) -> int:
    """Flush stdout at the end, so that the interpreter has nothing left to complain about."""
    if sys.stdout is None:
        return status
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_stdout()
    except OSError:
        _discard_stdout()
        return 2
    except ValueError:  # closed already
        pass
    return status


def _discard_stdout() -> None:
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
