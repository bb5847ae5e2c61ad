"""What the simulated ranks print, kept apart."""

from __future__ import annotations

import io
import threading
from collections import deque
from typing import Any

from harness.worlds import Echo
from harness.worlds.simulated.scheduler import Scheduler
from harness.worlds.simulated.unwinding import Unwind

KEPT_LINES = 2000


class Output:
    """The lines of all ranks; ``echo`` is told each of them at once."""

    def __init__(self, scheduler: Scheduler, world_size: int, echo: Echo | None) -> None:
        self._scheduler = scheduler
        self._echo = echo
        self._echoing = False
        self.failure: BaseException | None = None  # of whoever was told
        self._partial = [""] * world_size
        self._lines: list[deque[str]] = [deque(maxlen=KEPT_LINES) for _ in range(world_size)]

    def takes(self, text: str) -> bool:
        """Take what a rank prints; False for anybody else's."""
        fiber = self._scheduler.current
        if fiber is None or self._echoing or fiber.thread is not threading.current_thread():
            return False
        *lines, rest = (self._partial[fiber.rank] + text).split("\n")
        self._partial[fiber.rank] = rest
        for line in lines:
            self._take(fiber.rank, line)
        return True

    def _take(self, rank: int, line: str) -> None:
        self._lines[rank].append(line)
        if self._echo is None:
            return
        self._echoing = True  # whoever is told may print it, which is not the rank's own
        try:
            self._echo(rank, line)
        except Unwind:
            raise
        except BaseException as error:  # it is not the rank's own
            self._echo, self.failure = None, error
        finally:
            self._echoing = False

    def end(self) -> None:
        """Take what has no end of line as a line."""
        for rank, rest in enumerate(self._partial):
            if rest:
                self._take(rank, rest)
        self._partial = [""] * len(self._partial)

    def of(self, rank: int) -> str:
        """Return the last of what a rank has printed."""
        return "".join(f"{line}\n" for line in self._lines[rank])


class RankStream(io.TextIOBase):
    """Stands in for stdout or stderr: what no rank prints goes where it would have gone."""

    def __init__(self, output: Output, original: Any) -> None:
        self._output = output
        self._original = original

    def write(self, text: str) -> int:
        """Write it to where it belongs."""
        return len(text) if self._output.takes(text) else int(self._original.write(text))

    def flush(self) -> None:
        """Nothing is held back."""

    def isatty(self) -> bool:
        """Return False: it is no terminal."""
        return False

    def writable(self) -> bool:
        """Return True."""
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of a terminal."""
        return "utf-8"

    def fileno(self) -> int:
        """Return the real stream's descriptor."""
        return int(self._original.fileno())
