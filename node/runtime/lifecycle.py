"""The life of a node: the tasks that run beside everything else, and its end by an order, a verdict, or a failure."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

log = structlog.get_logger()


class Lifecycle:
    """The life of a group, or of the process. A failure ends it at once and nothing is served after it. Other ends are
    in order.

    `draining`: it ends, or is about to. Nothing new is taken.
    """

    def __init__(self, failing: Callable[[BaseException], None]) -> None:
        """`failing` is told of the first failure, before any other part learns of it."""
        self.draining = False
        self._failing = failing
        self._tasks: list[asyncio.Task[Any]] = []
        self._ended: asyncio.Future[None] | None = None
        self._failure: BaseException | None = None
        self._verdict: Exception | None = None

    def begin(self) -> None:
        """Begin to serve. From now on something may end it."""
        self._ended = asyncio.get_running_loop().create_future()

    async def until_ended(self) -> None:
        """Wait until it ends. Raises what failed."""
        assert self._ended is not None, "begin first"
        await self._ended

    @property
    def serves(self) -> bool:
        """True if it has begun, and nothing has ended it."""
        return self._ended is not None and not self._ended.done()

    @property
    def in_order(self) -> bool:
        """True if it was told to end, and nothing had failed until then."""
        ended = self._ended
        return ended is not None and ended.done() and not ended.cancelled() and ended.exception() is None

    @property
    def failed(self) -> bool:
        """True if something failed for good."""
        return self._failure is not None

    def stop(self) -> None:
        """End in order."""
        if self._ended is not None and self.serves:
            self._ended.set_result(None)

    def end(self, why: Exception) -> None:
        """End in order because of a verdict, which is no failure. `raise_why` raises it."""
        if self._verdict is None:
            self._verdict = why
            log.error("ending", why=str(why))
        self.stop()

    def fatal(self, error: BaseException) -> None:
        """End because something failed for good. From this moment on nothing is written, applied or answered. That
        holds while it ends in order too, so that no checkpoint is made of data that may not be on the disk."""
        if self._failure is not None or self._ended is None:
            return
        self._failure = error
        self._failing(error)
        if not self._ended.done():
            self._ended.set_exception(error)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a task beside everything else, until the node ends. If the task fails the node ends with it."""
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(self._task_ended)
        self._tasks.append(task)
        return task

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.remove(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fatal(error)

    async def end_tasks(self) -> None:
        """Cancel the tasks that still run, and wait for their end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # a task that failed as it was cancelled is told of by its callback

    def raise_why(self) -> None:
        """Raise the failure or the verdict that ended it, if any."""
        if self._failure is not None:
            raise self._failure
        if self._verdict is not None:
            raise self._verdict
