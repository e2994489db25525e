"""Keeps account of the calls that read a group's files. When the group closes, no new call begins, and calls under way
get CLOSE_S to end."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final

from api.port.problem import Problem

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
