"""Work that is done because time has passed: slewing the clock, giving leadership away if the clock is off, unlinking
hours. It also calls the functions of other parts that have to look at something every HOUSEKEEPING_S."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence

import structlog

from api.port.problem import Problem
from node.handover.delivery_log import DeliveryLog
from node.handover.term import Leadership
from node.runtime.clock import NodeClock
from node.upkeep.export import Exports
from node.upkeep.retention import Retention
from replication.wire.periodic import next_look

log = structlog.get_logger()

#: Seconds between two rounds: slewing the clock, measuring free space, turning the near hours.
HOUSEKEEPING_S = 0.5
#: Seconds between two looks of a leader for hours to unlink. With a short retention it looks more often: KEPT_LOOKS
#: times within the retention.
RETENTION_S = 20.0
KEPT_LOOKS = 4


async def keep_house(
    clock: NodeClock,
    *,
    give_up: Callable[[], Awaitable[None]],
    yield_if_outvoted: Callable[[], Awaitable[None]],
    looks: Sequence[Callable[[], object]],
) -> None:
    """Every HOUSEKEEPING_S, until cancelled: slew the clock, give leadership away if the clock is off, and call each
    function of `looks`, which must be short. `give_up` gives leadership away, or steps down, if this node leads.
    `yield_if_outvoted` gives it away if a majority's clocks contradict this one."""
    while True:
        error_ms = clock.error_ms()
        if clock.slew():
            log.warning("the wall clock stepped", error_ms=round(error_ms))
            await give_up()  # a node does not lead on a clock that is known to be wrong
            clock.slew()  # a follower's clock may step, and does before it can be elected again
        await yield_if_outvoted()
        for look in looks:
            look()
        await next_look(HOUSEKEEPING_S)


async def unlink_hours(
    clock: NodeClock,
    delivery_log: DeliveryLog,
    exports: Exports,
    retention: Retention,
    leadership: Leadership,
    retention_ms: int,
) -> None:
    """On the leader, propose to unlink hours that are past their retention. On every node, remove files of the delivery
    log that are older than `retention_ms`. Runs until cancelled."""
    while True:
        await asyncio.sleep(min(RETENTION_S, retention_ms / KEPT_LOOKS / 1000))
        now_ms = clock.now_ms()
        delivery_log.remove_before(now_ms - retention_ms, now_ms=now_ms, may_go=exports.covers_log)
        if leadership.term is not None:
            with contextlib.suppress(Problem):  # the leader changed: the next one does it
                unlinked = await retention.propose()
                if unlinked:
                    log.info("unlinked", hours=unlinked)
