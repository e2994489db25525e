"""Waiting for what a writer wrote."""

import asyncio

from chaos.hostile.arrivals import Arrivals


def test_the_last_message_is_waited_for_when_all_others_had_arrived() -> None:
    """A wait that ended as soon as everything known had arrived called a message lost 130 ms before it was due."""

    async def waited() -> list[str]:
        arrivals = Arrivals()
        arrivals.written.add("a")
        arrivals.arrive("a")
        arrivals.written.add("b")
        waiting = asyncio.create_task(arrivals.wait(60))
        await asyncio.sleep(0)
        assert not waiting.done()
        arrivals.arrive("b")
        return await waiting

    assert asyncio.run(waited()) == []


def test_a_message_may_arrive_before_its_writer_knows_the_id() -> None:
    """An early arrival counts, and a second delivery too."""
    arrivals = Arrivals()
    arrivals.arrive("a")
    arrivals.arrive("a")
    arrivals.written.add("a")
    assert asyncio.run(arrivals.wait(60)) == []
    assert arrivals.deliveries == {"a": 2}


def test_what_does_not_arrive_is_named() -> None:
    """The timeout ends the wait."""
    arrivals = Arrivals()
    arrivals.written |= {"b", "a"}
    assert asyncio.run(arrivals.wait(0.01)) == ["a", "b"]
