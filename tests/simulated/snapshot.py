"""What a simulated run may change in this process, and must not leave changed."""

from __future__ import annotations

import _thread
import ctypes
import fcntl
import gc
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
import warnings
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ProcessGroup, Store, Work
from torch.distributed import distributed_c10d as c10d
from torch.nn.parallel import DistributedDataParallel

_OWNERS = (
    c10d, dist, c10d.Backend, dist.P2POp, ProcessGroup, Work, Store,
    _thread, threading, threading.Thread, subprocess, signal,
    torch.Tensor, torch.autograd, torch.futures.Future,
)  # fmt: skip
_TABLES = ("_plugins", "backend_type_map", "backend_capability", "default_device_backend_map")
_NAMED: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (time, ("sleep", "time", "monotonic", "perf_counter", "time_ns")),
    (os, ("_exit", "kill", "abort", "fork", "getpid", "environ", "putenv", "chdir")),
    (sys, ("stdout", "stderr", "stdin", "excepthook", "argv", "path", "modules", "displayhook")),
    (sys, ("__stdout__", "__stderr__", "unraisablehook", "meta_path", "path_hooks")),
    (time, ("monotonic_ns", "perf_counter_ns")),
    (threading, ("excepthook",)),
    (fcntl, ("flock",)),
    (torch, ("set_num_interop_threads", "get_num_interop_threads")),
    (torch.library, ("define",)),
    (multiprocessing.context._default_context, ("_actual_context",)),
)


def _below_python() -> dict[str, Any]:
    """The process's own environment, which ``os.environ`` is a copy of."""
    libc = ctypes.CDLL(None)
    libc.getenv.restype = ctypes.c_char_p
    names = [*os.environ, "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK"]
    names += ["SOILED", "MINE", "OMP_NUM_THREADS"]
    return {name: libc.getenv(name.encode()) for name in names}


def _without_pytest(variables: dict[str, Any]) -> dict[str, Any]:
    variables.pop("PYTEST_CURRENT_TEST", None)
    return variables


def snapshot() -> dict[str, Any]:
    """Everything by name; two of them are compared by :func:`differences`."""
    found: dict[str, Any] = {}
    for owner in _OWNERS:
        prefix = getattr(owner, "__name__", str(owner))
        for name, value in vars(owner).items():
            if name == "reduce_op":  # warns when it is looked at
                continue
            if callable(value) or isinstance(value, classmethod | staticmethod | property):
                found[f"{prefix}.{name}"] = id(value)
    for holder, names in _NAMED:
        for name in names:
            found[f"{getattr(holder, '__name__', holder)}.{name}"] = id(getattr(holder, name))
    for name in _TABLES:
        found[f"Backend.{name}"] = dict(getattr(c10d.Backend, name))
    found |= {
        "Backend.backend_list": list(c10d.Backend.backend_list),
        "Backend names": sorted(name for name in vars(c10d.Backend) if name.isupper()),
        "c10d._world": id(c10d._world),
        "of classes": [
            id(vars(owner)[name])
            for owner, name in (
                (torch._C.Future, "wait"),
                (torch.library.Library, "__init__"),
                (DistributedDataParallel, "register_comm_hook"),
                (type(c10d.group), "WORLD"),
            )
        ],
        "initialised": dist.is_initialized(),
        "environ": _without_pytest(dict(os.environ)),
        "getenv": _without_pytest(_below_python()),
        "argv": list(sys.argv),
        "path": list(sys.path),
        "modules of the user": {
            name: id(module)
            for name, module in sys.modules.items()
            if name == "__main__" or "tests" in (getattr(module, "__file__", None) or "")
        },
        "filters": list(warnings.filters),
        "showwarning": id(warnings.showwarning),
        "dtype": torch.get_default_dtype(),
        "device": str(torch.get_default_device()),
        "threads of torch": torch.get_num_threads(),
        "grad": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        "autocast": torch.is_autocast_enabled("cpu"),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "torch's random state": torch.get_rng_state().numpy().tobytes(),
        "python's random state": random.getstate(),
        "numpy's random state": repr(np.random.get_state()),
        "collector": (gc.isenabled(), gc.get_threshold()),
        "folder": os.getcwd(),  # noqa: PTH109
        "recursion": sys.getrecursionlimit(),
        "switch interval": sys.getswitchinterval(),
        "trace": (sys.gettrace(), sys.getprofile()),
        "handlers": [signal.getsignal(n) for n in (2, 10, 12, 14, 15)],
        "timer": signal.getitimer(signal.ITIMER_REAL)[0] > 0,
        "umask": _umask(),
    }
    return found


def threads() -> set[threading.Thread]:
    """The threads that run now."""
    return set(threading.enumerate())


def differences(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """What is other than it was."""
    found: dict[str, Any] = {}
    for name in before.keys() | after.keys():
        old, new = before.get(name, "absent"), after.get(name, "absent")
        if isinstance(old, dict) and isinstance(new, dict):
            found |= {f"{name}: {key}": value for key, value in differences(old, new).items()}
        elif old != new:
            found[name] = (old, new)
    return found


def _umask() -> int:
    now = os.umask(0)
    os.umask(now)
    return now
