"""Finding the entries of a corpus, and choosing among them."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from harness.faults.entry import CorpusError, Entry, read_entry

BUILT_IN = Path(__file__).parent / "entries"


def read_corpus(folder: str | Path | None = None) -> list[Entry]:
    """Return the entries below a folder, or the built-in ones, by class and name.

    Files whose names begin with ``_`` are helpers of entries. CorpusError for a folder without
    entries, the first file that is none, or two of one name.
    """
    root = BUILT_IN if folder is None else Path(folder)
    if not root.is_dir():
        raise CorpusError(f"there is no folder {root}: give one that holds entries of a corpus")
    paths = sorted(_files(root))
    entries = [read_entry(path) for path in paths]
    if not entries:
        raise CorpusError(f"{root} holds no entry: an entry is a file NAME.py with a LABEL")
    seen: dict[str, Entry] = {}
    for entry in entries:
        if entry.id in seen:
            raise CorpusError(f"{entry.path} and {seen[entry.id].path} are both {entry.id}")
        seen[entry.id] = entry
    return sorted(entries, key=lambda entry: (entry.label.kind, entry.id))


def _files(root: Path) -> Iterator[Path]:
    """Yield the files that are to be entries; CorpusError for a folder that cannot be read."""

    def unreadable(error: OSError) -> None:
        raise CorpusError(f"{error.filename} cannot be read: {error.strerror}")

    for folder, folders, files in os.walk(root, onerror=unreadable, followlinks=False):
        folders[:] = [name for name in folders if not name.startswith(("_", "."))]
        for name in files:
            if name.endswith(".py") and not name.startswith(("_", ".")):
                yield Path(folder) / name


def chosen(
    entries: Iterable[Entry],
    *,
    kinds: Sequence[str] = (),
    codes: Sequence[str] = (),
    sources: Sequence[str] = (),
) -> list[Entry]:
    """Return those of any of the classes, with any of the codes, from any of the sources.

    A source is a part of the label's text, in any case of letters; nothing given lets all pass.
    CorpusError where nothing is left.
    """
    everything = list(entries)
    left = [
        entry
        for entry in everything
        if (not kinds or entry.label.kind in kinds)
        and (not codes or entry.label.code in codes)
        and (not sources or any(s.lower() in entry.label.source.lower() for s in sources))
    ]
    if not left:
        classes = ", ".join(sorted({entry.label.kind for entry in everything}))
        found = ", ".join(sorted({entry.label.code for entry in everything}))
        raise CorpusError(
            "no entry is of that class, code and source; "
            f"the classes are {classes}; the codes are {found}"
        )
    return left


def find(entries: Iterable[Entry], name: str) -> Entry:
    """Return the entry of that id; CorpusError with the nearest one where there is none."""
    known = {entry.id: entry for entry in entries}
    wanted = name.replace("_", "-")
    if wanted in known:
        return known[wanted]
    close = difflib.get_close_matches(wanted, known, n=1)
    hint = f"did you mean {close[0]}?" if close else "'harness faults list' names them"
    raise CorpusError(f"there is no entry {name!r}: {hint}")
