"""The key-value stores of the simulated ranks: a wait for a key lets the others go on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from torch._C._distributed_c10d import Store
from torch.distributed import DistStoreError

from harness.worlds.simulated.scheduler import Scheduler

_TIMEOUT = timedelta(minutes=5)  # a real store's


class SimStore(Store):
    """A store in memory; torch's C++ calls it too."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._scheduler = scheduler
        self._values: dict[str, bytes] = {}
        self._timeout = _TIMEOUT

    def set(self, key: str, value: Any) -> None:
        """Set a key."""
        self._values[key] = value.encode() if isinstance(value, str) else bytes(value)

    def get(self, key: str) -> bytes:
        """Return a key's value, when it has one."""
        self.wait([key])
        return self._values[key]

    def add(self, key: str, amount: int) -> int:
        """Add to a counter; return what it is then."""
        if not amount:
            self._polled()
        total = int(self._values.get(key, b"0")) + amount
        self._values[key] = str(total).encode()
        return total

    def compare_set(self, key: str, expected: Any, desired: Any) -> bytes:
        """Set a key that has the expected value, or has none where none is expected."""
        old = self._values.get(key)
        wanted = expected.encode() if isinstance(expected, str) else bytes(expected)
        if old == wanted or (old is None and not wanted):
            self.set(key, desired)
        return self._values.get(key, wanted)

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys have values."""
        self._polled()
        return self._has(keys)

    def _polled(self) -> None:
        """The running rank may be asking again and again: let the others go first."""
        if self._scheduler.on_this_thread is not None:
            self._scheduler.give_way()

    def _has(self, keys: Sequence[str]) -> bool:
        return all(key in self._values for key in keys)

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all keys have values."""
        limit = int((timeout or self._timeout).total_seconds() * 1e9)
        # Nobody sees what a rank waits for here: a wait that nobody ends is no proved deadlock, and
        # ends by the time in which nothing happens.
        if not self._has(keys) and not self._scheduler.block(lambda: self._has(keys), limit):
            raise DistStoreError(f"wait timeout, keys: {', '.join(keys)}")

    def delete_key(self, key: str) -> bool:
        """Forget a key; return whether it was there."""
        return self._values.pop(key, None) is not None

    deleteKey = delete_key  # noqa: N815  # as torch's C++ calls it

    def num_keys(self) -> int:
        """Return how many keys there are."""
        return len(self._values)

    getNumKeys = num_keys  # noqa: N815

    def set_timeout(self, timeout: timedelta) -> None:
        """Set how long a wait for a key lasts at most."""
        self._timeout = timeout


class Stores:
    """The stores of a run, each the same one on all ranks."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._stores: dict[object, SimStore] = {}

    def get(self, name: object) -> SimStore:
        """Return the store of that name."""
        if name not in self._stores:
            self._stores[name] = SimStore(self._scheduler)
        return self._stores[name]

    def tcp(self, host: str, port: int, *_: Any, **__: Any) -> SimStore:
        """Return a store in the place of a ``TCPStore``."""
        return self.get((host, port))

    def file(self, path: str, *_: Any, **__: Any) -> SimStore:
        """Return a store in the place of a ``FileStore``."""
        return self.get(("file", str(path)))
