"""Who goes on where several ranks can: in turn, by a seed, or by a list of choices."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from harness.worlds.simulated.scheduler import Interleaving


class RoundRobin:
    """A rank runs until it waits; then the next one that can."""

    met: Sequence[int] = ()

    def next(self, ready: Sequence[int], last: int) -> int:
        """Return the first ready rank after ``last``, in a circle."""
        return min(ready, key=lambda rank: (rank <= last, rank))

    def choose(self, count: int) -> int:
        """The earliest."""
        return 0

    def interrupts(self) -> bool:
        """Never."""
        return False


class Seeded:
    """Any rank that can go on, and any possibility, by a seed."""

    met: Sequence[int] = ()

    def __init__(self, seed: int) -> None:
        self._random = random.Random(f"interleaving {seed}")

    def next(self, ready: Sequence[int], last: int) -> int:
        """Return any of them."""
        return ready[self._random.randrange(len(ready))]

    def choose(self, count: int) -> int:
        """Any."""
        return self._random.randrange(count)

    def interrupts(self) -> bool:
        """One time in four."""
        return self._random.random() < 0.25


class Chosen:
    """Follows a list of choices, and the first possibility after its end; writes down what it met.

    ``met`` says of each choice how many possibilities there were: enough to walk through all.
    """

    def __init__(self, choices: Sequence[int] = ()) -> None:
        self._choices = list(choices)
        self._met: list[int] = []

    @property
    def met(self) -> Sequence[int]:
        """Return how many possibilities each choice had."""
        return self._met

    def next(self, ready: Sequence[int], last: int) -> int:
        """Choose among the ready ranks."""
        return ready[self.choose(len(ready))]

    def choose(self, count: int) -> int:
        """Take the next choice of the list."""
        if count == 1:
            return 0
        place = len(self._met)
        self._met.append(count)
        return min(self._choices[place], count - 1) if place < len(self._choices) else 0

    def interrupts(self) -> bool:
        """Never: between two waits nothing is decided, but for a poll, which yields by itself."""
        return False


FORMS = "random:NUMBER, choices:0.1.0 or nothing, which is in turn"


def read(text: str) -> Interleaving:
    """Return the interleaving of that name; ValueError says which there are."""
    if not text:
        return RoundRobin()
    if match := re.fullmatch(r"random:(\d{1,18})", text, re.ASCII):
        return Seeded(int(match[1]))
    if match := re.fullmatch(r"choices:(\d{1,4}(?:\.\d{1,4})*)?", text, re.ASCII):
        return Chosen([int(choice) for choice in (match[1] or "").split(".") if choice])
    raise ValueError(f"interleaving {text!r}: allowed are {FORMS}")


def following(choices: Sequence[int], widths: Sequence[int]) -> list[int] | None:
    """Return the choices of the next run of a walk through all; None after the last.

    ``widths`` says how many possibilities the run with ``choices`` met, one after another.
    """
    taken = [*choices[: len(widths)], *([0] * (len(widths) - len(choices)))]
    for place in reversed(range(len(widths))):
        if taken[place] + 1 < widths[place]:
            return [*taken[:place], taken[place] + 1]
    return None


def spelled(choices: Sequence[int]) -> str:
    """Return the name of a list of choices."""
    return "choices:" + ".".join(map(str, choices))
