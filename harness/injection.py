"""What is done to one rank at one of its calls: by a mutant, or by the nemesis."""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.case import INJECTION, UsageError


@dataclass(frozen=True, slots=True)
class Injection:
    """``swap@1.4``: the operator, the rank, and the place there, both counted from 0."""

    operator: str
    rank: int
    place: int

    def __str__(self) -> str:
        return f"{self.operator}@{self.rank}.{self.place}"

    @classmethod
    def parse(cls, text: str, what: str = "mutant") -> Injection:
        """Read what ``str`` prints; UsageError, which names ``what``, for anything else."""
        match = re.fullmatch(INJECTION, text)
        if match is None:
            raise UsageError(f"{what}={text}: OPERATOR@RANK.PLACE is needed, as in swap@1.4")
        return cls(match[1], int(match[2]), int(match[3]))
