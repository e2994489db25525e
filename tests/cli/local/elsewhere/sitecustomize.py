"""A Python without Linux's own calls, as on a Mac. Python imports a `sitecustomize` of its path before anything else.

It takes the calls away when the standard library has looked at them, and says that there is no /proc. Where the
environment names a file FULL_SYNC_CALLS, there is F_FULLFSYNC: it syncs by fsync, and writes a line to that file.
"""

import asyncio
import builtins
import ctypes
import fcntl
import io
import os
import select
import selectors
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import urllib.request
from collections.abc import Callable
from typing import Any

LOADED = (asyncio, shutil, subprocess, tempfile, urllib.request)
"""These ask for the calls when they are imported, and know what to do without them."""

GONE: list[tuple[object, str]] = [
    *(
        (os, name)
        for name in ("fdatasync", "pidfd_open", "posix_fadvise", "posix_fallocate", "memfd_create", "eventfd")
    ),
    *((os, name) for name in ("eventfd", "sched_getaffinity", "sched_setaffinity")),
    *((select, name) for name in ("epoll", "EPOLLIN", "EPOLLRDHUP", "POLLRDHUP")),
    *((time, name) for name in ("pthread_getcpuclockid", "CLOCK_BOOTTIME")),
]
OF_LINUX = ("prctl", "syncfs", "sync_file_range", "malloc_trim", "mallinfo2", "mallopt")
HIDDEN = ("/proc", "/sys/fs/cgroup")
OPENING: list[tuple[object, str]] = [
    *((builtins, "open"), (io, "open")),
    *((os, name) for name in ("open", "listdir", "scandir", "stat", "readlink")),
]
F_FULLFSYNC = 51


class Library(ctypes.CDLL):
    """The C library of another system."""

    def __getattr__(self, name: str) -> Any:
        if name in OF_LINUX:
            raise AttributeError(name)
        return super().__getattr__(name)


def hiding(real: Callable[..., Any]) -> Callable[..., Any]:
    """The call, but there are no files of HIDDEN."""

    def call(path: Any = ".", *rest: Any, **named: Any) -> Any:
        if isinstance(path, str | bytes | os.PathLike) and os.fsdecode(path).startswith(HIDDEN):
            raise FileNotFoundError(2, "No such file or directory", os.fsdecode(path))
        return real(path, *rest, **named)

    return call


def give_full_sync(told: str) -> None:
    """F_FULLFSYNC, of which each call is a line of the file `told`."""
    real = fcntl.fcntl

    def call(fd: int, command: int, *rest: Any) -> Any:
        if command != F_FULLFSYNC:
            return real(fd, command, *rest)
        os.fsync(fd)
        with open(told, "a") as file:
            file.write("full sync\n")
        return 0

    vars(fcntl).update(F_FULLFSYNC=F_FULLFSYNC, fcntl=call)


for module, name in GONE:
    if hasattr(module, name):
        delattr(module, name)
vars(os)["process_cpu_count"] = os.cpu_count  # since Python 3.13, on Linux by the affinity
vars(selectors)["DefaultSelector"] = selectors.PollSelector
vars(ctypes)["CDLL"] = Library
for module, name in OPENING:
    setattr(module, name, hiding(getattr(module, name)))
if "FULL_SYNC_CALLS" in os.environ:
    give_full_sync(os.environ["FULL_SYNC_CALLS"])
sysconfig.get_config_vars()  # of this system, once
sys.platform = "darwin"
