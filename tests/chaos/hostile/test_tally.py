"""Waiting for what a writer wrote."""

import asyncio

from chaos.hostile.tally import DeliveryTally


def test_the_last_message_is_waited_for_when_all_others_had_arrived() -> None:
    """A wait that ended as soon as everything known had arrived called a message lost 130 ms before it was due."""

    async def waited() -> list[str]:
        tally = DeliveryTally()
        tally.written.add("a")
        tally.arrive("a")
        tally.written.add("b")
        waiting = asyncio.create_task(tally.wait(60))
        await asyncio.sleep(0)
        assert not waiting.done()
        tally.arrive("b")
        return await waiting

    assert asyncio.run(waited()) == []


def test_a_message_may_arrive_before_its_writer_knows_the_id() -> None:
    """An early arrival counts, and a second delivery too."""
    tally = DeliveryTally()
    tally.arrive("a")
    tally.arrive("a")
    tally.written.add("a")
    assert asyncio.run(tally.wait(60)) == []
    assert tally.deliveries == {"a": 2}


def test_what_does_not_arrive_is_named() -> None:
    """The timeout ends the wait."""
    tally = DeliveryTally()
    tally.written |= {"b", "a"}
    assert asyncio.run(tally.wait(0.01)) == ["a", "b"]
