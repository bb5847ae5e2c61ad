"""A place for a recorder's events that keeps them in this process."""

from __future__ import annotations

from harness.decode import Decoder, Event
from harness.trace import RankTrace


class Events:
    """A sink that keeps what it is given."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def put(
        self, code: int, time_ns: int, a: int, b: int = 0, c: int = 0, d: int = 0, flags: int = 0
    ) -> None:
        self.events.append((chr(code), time_ns, a, b, c, d, flags))

    def write(self, event: Event) -> None:
        self.events.append(event)

    def history(self) -> RankTrace:
        decoder = Decoder(1)
        decoder.feed((0, event) for event in self.events)
        return decoder.trace.ranks[0]
