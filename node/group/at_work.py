"""Keeps account of the calls that read a group's files. When the group closes, no new call begins, and calls under way
get CLOSE_S to end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

from api.port.problem import Problem
from node.runtime.lifecycle import Lifecycle
from storage.file.disk import DiskFailed
from storage.format.rows import Corrupt

P = ParamSpec("P")
T = TypeVar("T")

#: How long calls at work may go on once the group closes.
CLOSE_S: Final = 1.0


class AtWork:
    """The calls of one group that are under way, each in a task. A task may be in several calls at once, one inside the
    other."""

    def __init__(self) -> None:
        self._depths: dict[asyncio.Task[Any], int] = {}
        self._cut: set[asyncio.Task[Any]] = set()
        self._closed = False
        self._none = asyncio.Event()

    def begin(self) -> asyncio.Task[Any]:
        """Note that the running task is in a call until `end` is called. Return the task. Raises `no-leader` once the
        group closes."""
        if self._closed:
            raise closed()
        task = asyncio.current_task()
        assert task is not None
        self._depths[task] = self._depths.get(task, 0) + 1
        return task

    def end(self, task: asyncio.Task[Any]) -> None:
        """Note that the task has left one of its calls."""
        depth = self._depths.pop(task) - 1
        if depth:
            self._depths[task] = depth
            return
        self._cut.discard(task)
        if not self._depths:
            self._none.set()

    def is_cut(self, task: asyncio.Task[Any]) -> bool:
        """True if the task was cancelled by `close`, and by nothing else."""
        return task in self._cut and task.uncancel() == 0

    async def close(self) -> None:
        """Let no new call begin. Return when no call is under way. Calls that take longer than CLOSE_S are
        cancelled."""
        self._closed = True
        self._none.clear()
        if self._depths:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._none.wait(), CLOSE_S)
        for task in self._depths:
            self._cut.add(task)
            task.cancel()
        if self._depths:
            await self._none.wait()


def closed() -> Problem:
    """The refusal of a group that closes."""
    return Problem("no-leader", "this node closes its data, or opens it again; nothing happened")


class Reader(Protocol):
    """An object with methods that read a group's files. `life` is the group's."""

    at_work: AtWork
    life: Lifecycle


R = TypeVar("R", bound=Reader)


def reads_files(
    method: Callable[Concatenate[R, P], Awaitable[T]],
) -> Callable[Concatenate[R, P], Coroutine[Any, Any, T]]:
    """Wrap a method that reads files: if a checksum does not match or a disk fails, the wrapped method ends the group.
    Otherwise its front would answer 500 and go on serving data that may be damaged."""

    @wraps(method)
    async def guarded(self: R, /, *args: P.args, **kwargs: P.kwargs) -> T:
        task = self.at_work.begin()
        try:
            return await method(self, *args, **kwargs)
        except asyncio.CancelledError:
            if self.at_work.is_cut(task):
                raise closed() from None
            raise
        except (Corrupt, DiskFailed) as error:
            self.life.fatal(error)
            raise
        finally:
            self.at_work.end(task)

    return guarded
