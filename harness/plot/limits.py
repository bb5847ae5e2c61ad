"""How large a plot may be, and from where on what is left out of it is said."""

from __future__ import annotations

MAX_WORLD = 4096
MAX_CHUNKS = 32_768  # six actions each on a rank: as many as a row may have
MAX_WORK = 1 << 23
"""Ranks × microbatches: some GB and minutes for the schedules with the most actions."""

DRAWN_ACTIONS = 1_000_000
"""Of a drawing with an element for each action: browsers give up before that."""
GRID_CELLS = 4_000_000
"""Of the grid in JSON."""
PATH_ACTIONS = 200_000
"""Of the critical path in JSON."""
TEXT_CELLS = 200_000
"""Of the grid in text: beyond, it is cut to so many ranks and columns as can be read."""
TEXT_COLUMNS = 60
FIRST_RANKS, LAST_RANKS = 12, 4
WRONG_RANKS = 12
"""Beside these, of those with a problem, and of those that are stuck."""
