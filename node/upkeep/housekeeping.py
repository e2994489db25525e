"""What time alone brings: the clock's slew, free space, hours that become near, hours that are over."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import structlog

from api.port.problem import Problem
from replication.wire.rhythm import next_look
from storage.format.position import HOUR_MS

if TYPE_CHECKING:
    from node.server import Node

log = structlog.get_logger()

#: How often the clock is slewed, free space measured and the near hours turned.
HOUSEKEEPING_S = 0.5
#: How often a leader looks for hours that are over; more often where they are kept for less than so many looks.
RETENTION_S = 20.0
KEPT_LOOKS = 4


async def keep_house(node: Node) -> None:
    """Until cancelled: the clock, free space, the turn of the hour; the loop is watched meanwhile."""
    with node.watchdog as watchdog:
        node.driver.on_step = watchdog.beat
        await _keep(node)


async def _keep(node: Node) -> None:
    while True:
        error_ms = node.clock.error_ms()
        if node.clock.slew():
            log.warning("the wall clock stepped", error_ms=round(error_ms))
            await node.transfer.give_up()  # no leading on a clock that is known to be wrong
            node.clock.slew()  # a follower's may step, and does before it can be elected again
        await node.transfer.yield_if_outvoted()
        node.leaving.look()
        node.levels.look()
        node.clock.bound(node.skew.least_median_ms())
        node.guard.watch()
        node.reserve.measure()
        node.store.turn(node.clock.now_ms() // HOUR_MS)
        await next_look(HOUSEKEEPING_S)


async def unlink_hours(node: Node) -> None:
    """Until cancelled: hours that are over, on the leader; old delivery logs, on every node."""
    while True:
        await asyncio.sleep(min(RETENTION_S, node.config.storage.retention_ms / KEPT_LOOKS / 1000))
        now_ms = node.clock.now_ms()
        before_ms = now_ms - node.config.storage.retention_ms
        node.delivery_log.remove_before(before_ms, now_ms=now_ms, may_go=node.exports.covers_log)
        if node.reign is not None:
            with contextlib.suppress(Problem):  # the leader changed: the next one sees to it
                unlinked = await node.retention.propose()
                if unlinked:
                    log.info("unlinked", hours=unlinked)
