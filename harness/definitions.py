"""What events refer to by number: lines, actions, groups and what posts have in common."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from harness.groups import Known
from pipeline.actions import Action, Origin

_SEEN = 4096  # actions known by identity at a time


class Definitions:
    """Numbers things, and writes each down the first time; 0 stands for none.

    ``lock`` is the one that every event is written under. With another of its own, two threads
    that come from either side would wait for each other, and an event could refer to a line that
    is yet to be written down.
    """

    def __init__(self, write: Callable[[tuple[Any, ...]], None], lock: threading.RLock) -> None:
        self._write = write
        self.lock = lock
        self._sites: dict[tuple[str, int, str], int] = {}
        self._actions: dict[tuple[Action, bool], int] = {}
        self._seen: dict[int, tuple[Action, int, int]] = {}  # by identity; holds what it names
        self.templates: dict[tuple[Any, ...], int] = {}
        self._groups: set[str] = set()
        self._threads: dict[int, int] = {}
        self._numbers = itertools.count()

    def thread(self) -> int:
        """Return this thread's number."""
        ident = threading.get_ident()
        if (number := self._threads.get(ident)) is None:
            number = self._threads.setdefault(ident, next(self._numbers))
        return number

    def action(self, action: Action | None) -> tuple[int, int]:
        """Return the numbers of an action's label and of the line that yielded it.

        A plan's actions are known by identity.
        """
        if action is None:
            return 0, 0
        seen = self._seen.get(id(action))
        if seen is not None:
            return seen[1], seen[2]
        with self.lock:
            origin = action.origin
            planned = origin is not None  # equality of actions ignores it
            if (label := self._actions.get((action, planned))) is None:
                label = self._actions[action, planned] = len(self._actions) + 1
                self._write(("A", 0, label, str(action), planned))
            site = 0 if origin is None else self._origin(origin)
            if len(self._seen) >= _SEEN:
                self._seen.clear()
            self._seen[id(action)] = (action, label, site)
        return label, site

    def site(self, frame: FrameType | None, action: Action | None) -> int:
        """Return the number of the user's line; for a plan's action the line that yielded it."""
        if frame is None:
            origin = None if action is None else action.origin
            return 0 if origin is None else self._origin(origin)
        code = frame.f_code
        return self._place((code.co_filename, frame.f_lineno, code.co_name))

    def _origin(self, origin: Origin) -> int:
        return self._place((origin.file, origin.line, origin.function))

    def _place(self, place: tuple[str, int, str]) -> int:
        site = self._sites.get(place)
        if site is not None:
            return site
        with self.lock:
            if (site := self._sites.get(place)) is None:
                site = self._sites[place] = len(self._sites) + 1
                self._write(("S", 0, site, *place))
        return site

    def template(self, key: tuple[Any, ...], group: Known, content: tuple[Any, ...]) -> int:
        """Return a new number for what equal posts have in common; ``templates`` has the known."""
        with self.lock:
            if group.name not in self._groups:
                self._groups.add(group.name)
                self._write(("G", 0, group.name, group.ranks))
            template = self.templates[key] = len(self.templates)
            self._write(("T", 0, template, *content))
        return template


def is_planned(action: Action | None) -> bool:
    """Whether a plan's communication is being executed: its line is known without a search."""
    return action is not None and action.origin is not None and action.kind.is_comm
