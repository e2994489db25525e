"""The life of a node: its background tasks, and its end by a request to stop, a verdict, or a failure."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

log = structlog.get_logger()


class Lifecycle:
    """The life of a group, or of the process. After a failure it ends at once, and no request is answered any more. If
    it ends for another reason, work under way is finished first; that is an end in order.

    `draining`: it ends, or is about to end, and takes no new work.
    """

    def __init__(self, failing: Callable[[BaseException], None]) -> None:
        """`failing` is called with the first failure, before any other part learns of it."""
        self.draining = False
        self._failing = failing
        self._tasks: list[asyncio.Task[Any]] = []
        self._ended: asyncio.Future[None] | None = None
        self._failure: BaseException | None = None
        self._verdict: Exception | None = None

    def begin(self) -> None:
        """Begin to serve. Call it on the event loop."""
        self._ended = asyncio.get_running_loop().create_future()

    async def until_ended(self) -> None:
        """Wait until the life ends. If a failure ended it, raises that failure."""
        assert self._ended is not None, "begin first"
        await self._ended

    @property
    def serves(self) -> bool:
        """True if `begin` was called and nothing has ended the life since."""
        return self._ended is not None and not self._ended.done()

    @property
    def in_order(self) -> bool:
        """True if `stop` or `end` ended the life before any failure."""
        ended = self._ended
        return ended is not None and ended.done() and not ended.cancelled() and ended.exception() is None

    @property
    def failed(self) -> bool:
        """True after a failure."""
        return self._failure is not None

    def stop(self) -> None:
        """End in order: work under way is finished."""
        if self._ended is not None and self.serves:
            self._ended.set_result(None)

    def end(self, why: Exception) -> None:
        """End in order because of `why`, a verdict such as "this node was removed", which is no failure. `raise_why`
        raises it later.
        """
        if self._verdict is None:
            self._verdict = why
            log.error("ending", why=str(why))
        self.stop()

    def fatal(self, error: BaseException) -> None:
        """End at once because of an error after which nothing can go on. From now on nothing is written, applied or
        answered, even if the life was ending in order. So no checkpoint is made of data that may not be on the disk.
        """
        if self._failure is not None or self._ended is None:
            return
        self._failure = error
        self._failing(error)
        if not self._ended.done():
            self._ended.set_exception(error)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a background task until the node ends. If the task fails, the node ends with its error."""
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
        await asyncio.sleep(0)  # lets the callbacks report tasks that failed as they were cancelled

    def raise_why(self) -> None:
        """Raise the failure or the verdict that ended the life, if any."""
        if self._failure is not None:
            raise self._failure
        if self._verdict is not None:
            raise self._verdict
