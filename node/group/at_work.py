"""Calls that read a group's files: when the group closes they have a moment to end, and nobody begins another."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from typing import Any, Final

from api.port.problem import Problem

#: How long what is at work may go on once the group closes.
CLOSE_S: Final = 1.0


class AtWork:
    """Those of one group; each is a `with` block in a task of its own, or in one that is in such a block already."""

    def __init__(self) -> None:
        self._depths: dict[asyncio.Task[Any], int] = {}
        self._cut: set[asyncio.Task[Any]] = set()
        self._closed = False
        self._none = asyncio.Event()

    def __enter__(self) -> None:
        if self._closed:
            raise _closed()
        task = _current()
        self._depths[task] = self._depths.get(task, 0) + 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        task = _current()
        depth = self._depths.pop(task) - 1
        if depth:
            self._depths[task] = depth
            return
        if not self._depths:
            self._none.set()
        if task in self._cut:
            self._cut.discard(task)
            if kind is asyncio.CancelledError and task.uncancel() == 0:
                raise _closed() from None

    async def close(self) -> None:
        """Returns when none is at work."""
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


def _current() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


def _closed() -> Problem:
    return Problem("no-leader", "this node closes its data, or opens it again; nothing happened")
