"""Runs a schedule for every rank: what it yields, as numbers, with the lines that yielded it."""

from collections.abc import Callable, Iterable
from itertools import islice
from types import CodeType, FrameType

from pipeline.actions import Action, Origin
from pipeline.coded import Coded, Origins, Row

Generate = Callable[[int, int, int], Iterable[Action | str]]
"""(rank, world, chunks) → that rank's actions."""

MAX_ROW = 200_000  # a generator that never ends must not take the machine with it


def generate_all(generate: Generate, world: int, chunks: int) -> Coded:
    """Return the rows of all ranks; ValueError for an item that is no action, or too many."""
    lines = _Lines(generate)
    rows = tuple(_generate(generate, rank, world, chunks, lines) for rank in range(world))
    return Coded(rows, lines.origins.listed())


def _generate(generate: Generate, rank: int, world: int, chunks: int, lines: "_Lines") -> Row:
    made = generate(rank, world, chunks)
    try:
        items = iter(made)
    except TypeError:
        raise ValueError(
            f"{name_of(generate)} returned {made!r} for rank {rank}; expected actions: yield them"
        ) from None
    row = Row()
    for item in islice(items, MAX_ROW):
        action = Action.parse(item) if isinstance(item, str) else item
        if not isinstance(action, Action):
            raise ValueError(
                f"{name_of(generate)} yielded {item!r} for rank {rank}; "
                "expected an Action or its text, such as '2F0'"
            )
        origin = lines.of(items) if action.origin is None else lines.origins.number(action.origin)
        try:
            row.add(action, origin)
        except OverflowError:
            raise ValueError(
                f"{name_of(generate)} yielded {action} for rank {rank}: "
                "its stage or microbatch is too large"
            ) from None
    if next(items, None) is not None:
        raise ValueError(f"{name_of(generate)} yielded over {MAX_ROW} actions for rank {rank}")
    return row


class _Lines:
    """Numbers the lines that a generator stands at when it yields."""

    def __init__(self, generate: Generate) -> None:
        self.origins = Origins()
        self._generate = generate
        self._known: dict[tuple[CodeType, int], int] = {}  # by instruction

    def of(self, items: object) -> int:
        """Return the number of the line that yielded, in the innermost generator."""
        while (inner := getattr(items, "gi_yieldfrom", None)) is not None and hasattr(
            inner, "gi_frame"
        ):
            items = inner
        frame: FrameType | None = getattr(items, "gi_frame", None)
        if frame is None:
            return self.origins.number(_origin(self._generate))
        at = frame.f_code, frame.f_lasti
        number = self._known.get(at)
        if number is None:
            code = frame.f_code
            origin = Origin(code.co_filename, frame.f_lineno, code.co_qualname)
            number = self._known[at] = self.origins.number(origin)
        return number


def _origin(generate: Generate) -> Origin | None:
    """Return where a function is that makes its items itself: the best there is."""
    code: CodeType | None = getattr(generate, "__code__", None)
    return Origin(code.co_filename, code.co_firstlineno, code.co_qualname) if code else None


def name_of(function: object) -> str:
    """Name a function, or what stands in for one."""
    return str(getattr(function, "__name__", type(function).__name__))
