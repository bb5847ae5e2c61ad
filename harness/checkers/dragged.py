"""Whether an error is one that a failure elsewhere drags along: by what backends say of it."""

from __future__ import annotations

import re

_DRAGGED = re.compile(
    r"connection (closed|reset|refused|aborted|was (reset|closed))|broken pipe|timed out|timeout|"
    r"socket closed|connectFullMesh|remote process exited|"
    r"monitoredBarrier",  # the only thing it tells of is that another rank did not come, or left
    re.IGNORECASE,
)


def sounds_dragged(message: str) -> bool:
    """Whether a backend says so of a peer that has gone, or that did not come in time."""
    return _DRAGGED.search(message) is not None


def is_refusal_of_arguments(error: BaseException, *, waited: bool) -> bool:
    """Whether a call of ``torch.distributed`` that raised this refused what it was given.

    A call may also fail because a peer has gone, or because the backend itself has failed; one
    that was ``waited`` in has begun to communicate, so that only Python's own checks are left.
    """
    if isinstance(error, (TypeError, ValueError)):
        return True
    if waited or isinstance(error, OSError) or _is_dist_error(error):
        return False
    return not sounds_dragged(str(error))


def _is_dist_error(error: BaseException) -> bool:
    return any(
        kind.__name__ == "DistError" and kind.__module__.startswith("torch")
        for kind in type(error).__mro__
    )
