"""Ranks in a sentence."""

from __future__ import annotations

from collections.abc import Sequence


def listed(ranks: Sequence[int]) -> str:
    """Return ``0, 1 and 3``."""
    words = [str(rank) for rank in ranks]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def ranks_(ranks: Sequence[int]) -> str:
    """Return ``rank 0`` or ``ranks 0 and 1``."""
    return f"rank{'s' if len(ranks) > 1 else ''} {listed(ranks)}"


def do(ranks: Sequence[int]) -> str:
    """Return ``rank 0 does`` or ``ranks 0 and 1 do``."""
    return f"{ranks_(ranks)} {'do' if len(ranks) > 1 else 'does'}"
