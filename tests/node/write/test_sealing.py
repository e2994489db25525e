"""The last entry of a leader that gives leadership away: what goes in it, and that nothing comes behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from api.port.port import MessageIn
from node.write.proposer import Proposer
from replication.raft.proposal import Outcome
from tests.node.proposing import Group, Riders, run, turns


def test_the_last_entry_takes_what_waits_and_the_last_leases() -> None:
    """A leader that stops proposes its queue and its riders once more: it is sealed when they are proposed, and lands
    when they are applied."""

    async def test(proposer: Proposer, group: Group, riders: Riders) -> None:
        riders.loaded = 1
        first = asyncio.create_task(proposer.schedule([MessageIn("t", b"1", "", None, None)]))
        await turns()
        second = asyncio.create_task(proposer.schedule([MessageIn("t", b"2", "", None, None)]))
        await turns()
        riders.loaded = 1
        sealed = asyncio.create_task(proposer.seal(5, nothing))
        await turns()
        assert not sealed.done()
        group.answer("refused")
        await turns()
        assert await sealed
        assert (riders.loaded, len(group.open)) == (0, 1)
        landed = asyncio.create_task(proposer.landed(5))
        await turns()
        assert not landed.done()
        group.answer("refused")
        assert await landed
        assert await proposer.landed(5), "at once"
        await turns()
        assert not group.open
        await asyncio.gather(first, second)

    run(test)


def test_a_last_entry_that_is_refused_at_once_is_proposed_again() -> None:
    """Its Leases come back, and there is nothing in the log yet: not sealed."""

    async def test(proposer: Proposer, group: Group, riders: Riders) -> None:
        riders.loaded = 1
        propose = group.propose

        def full(blob: bytes, done: Callable[[Outcome], None]) -> None:
            group.propose = propose  # type: ignore[method-assign]
            done(Outcome(error="overloaded"))

        group.propose = full  # type: ignore[method-assign]
        sealed = asyncio.create_task(proposer.seal(5, nothing))
        for _ in range(3):
            await turns()
        assert riders.told == ["returned"]
        assert await sealed

    run(test)


def nothing() -> None:
    """No hand-overs to end."""


def test_hand_overs_go_on_until_the_last_entry_is_put_together() -> None:
    """While an entry is in flight they may: their Leases go in the last one, and none is made behind it."""

    async def test(proposer: Proposer, group: Group, riders: Riders) -> None:
        frozen: list[int] = []
        first = asyncio.create_task(proposer.schedule([MessageIn("t", b"1", "", None, None)]))
        await turns()
        quiet = asyncio.create_task(proposer.seal(5, lambda: frozen.append(riders.loaded)))
        await turns()
        assert (frozen, len(group.open)) == ([], 1)
        riders.loaded = 1
        group.answer("refused")
        await turns()
        assert frozen == [1], "before the Leases were collected"
        assert (riders.loaded, len(group.open)) == (0, 1)
        assert await quiet
        group.answer()
        await first

    run(test)


def test_once_sealed_nothing_is_proposed_until_it_leads_on() -> None:
    """What comes then waits; a leader that leads on proposes it, one that steps down refuses it."""

    async def test(proposer: Proposer, group: Group, riders: Riders) -> None:
        assert await proposer.seal(5, nothing)
        waiting = asyncio.create_task(proposer.schedule([MessageIn("t", b"1", "", None, None)]))
        riders.loaded = 1
        await turns()
        assert not group.open
        proposer.resume()
        await turns()
        assert len(group.open) == 1
        group.answer("refused")
        await waiting
        assert await proposer.seal(5, nothing)
        waiting = asyncio.create_task(proposer.schedule([MessageIn("t", b"2", "", None, None)]))
        await turns()
        proposer.step_down()
        assert await waiting == [(0, 1, "not-leader")]
        proposer.kick()
        await turns()
        assert not group.open

    run(test)


def test_the_dispatch_state_goes_once_more_and_not_for_ever() -> None:
    """It moves with time: when nothing else is left it is proposed one last time, and that seals."""

    async def test(proposer: Proposer, group: Group, riders: Riders) -> None:
        riders.moving = True
        quiet = asyncio.create_task(proposer.seal(5, nothing))
        await turns()
        assert len(group.open) == 1
        assert await quiet
        group.answer()
        await turns()
        assert not group.open

    run(test)


def test_sealing_ends_with_leadership_and_with_its_time() -> None:
    """A stop does not wait for a majority that is not there."""

    async def test(proposer: Proposer, group: Group, riders: Riders) -> None:
        riders.loaded = 1
        proposer.kick()
        await turns()
        assert len(group.open) == 1, "it has no outcome for as long as this test lasts"
        quiet = asyncio.create_task(proposer.seal(60, nothing))
        await turns()
        proposer.step_down()
        assert not await asyncio.wait_for(quiet, 1)
        assert not await asyncio.wait_for(proposer.seal(0.01, nothing), 1)
        group.established = False
        assert not await asyncio.wait_for(proposer.seal(60, nothing), 1)

    run(test)
