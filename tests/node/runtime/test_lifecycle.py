"""What ends a node: the first failure at once, all else in order."""

import asyncio

import pytest

from node.runtime.lifecycle import Lifecycle
from tests.waiting import turns


class Verdict(Exception):
    """What is nobody's failure."""


def test_the_first_failure_ends_it_and_is_told_first() -> None:
    """Whoever waits learns of it after `failing` has; another one changes nothing."""
    told: list[BaseException] = []

    async def scene() -> None:
        life = Lifecycle(told.append)
        life.fatal(OSError("before it began"))
        assert not life.failed
        life.begin()
        assert life.serves
        life.fatal(OSError("first"))
        assert [str(each) for each in told] == ["first"]
        life.fatal(OSError("second"))
        life.end(Verdict())
        assert (life.serves, life.in_order, life.failed) == (False, False, True)
        with pytest.raises(OSError, match="first"):
            await life.until_ended()
        with pytest.raises(OSError, match="first"):
            life.raise_why()

    asyncio.run(scene())
    assert len(told) == 1


def test_it_ends_in_order_by_an_order_or_a_verdict() -> None:
    """A verdict is raised when all has ended; an order raises nothing. A failure on the way is one."""

    async def scene() -> None:
        life = Lifecycle(lambda error: None)
        life.begin()
        life.stop()
        life.stop()
        await life.until_ended()
        assert life.in_order
        life.raise_why()
        life.end(Verdict())
        life.end(ValueError())
        with pytest.raises(Verdict):
            life.raise_why()
        life.fatal(OSError("late"))
        with pytest.raises(OSError, match="late"):
            life.raise_why()

    asyncio.run(scene())


def test_what_runs_beside_ends_with_it_and_ends_it_where_it_fails() -> None:
    """Cancelled and waited for; whatever else comes out of it is a failure, when it is cancelled too."""

    async def scene() -> None:
        life = Lifecycle(lambda error: None)
        life.begin()

        async def fail(when: asyncio.Event) -> None:
            try:
                await when.wait()
            finally:
                raise OSError("beside")

        async def end() -> None:
            return None

        life.spawn(end())
        waits = life.spawn(asyncio.Event().wait())  # type: ignore[arg-type]
        late = life.spawn(fail(asyncio.Event()))
        await turns()
        assert life.serves
        await life.end_tasks()
        assert waits.cancelled()
        assert late.done()
        assert life.failed
        assert not life.serves

    asyncio.run(scene())
