"""A node as a process of the operating system: signals, memory, the interpreter's switches between threads, and notices
to the service manager."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading

import structlog

from node.node import Node
from node.notify import Announced, Notifier
from node.runtime.config import Config
from node.runtime.memory import give_back_often, settle_memory
from storage.file.disk import missing_calls

log = structlog.get_logger()

#: Seconds for which the loop may keep the interpreter's lock while the journal's thread waits for it. On a busy leader
#: every fdatasync waits for it once before and once after. Python's default is 5 ms.
SWITCH_S = 0.0005


async def run(config: Config) -> None:
    """Run one node until SIGTERM or SIGINT. If an error ends the node, raises that error."""
    sys.setswitchinterval(SWITCH_S)
    if missing := missing_calls():
        log.warning("for development only: this system lacks calls that Linux has", missing=missing)
    notifier = Notifier()
    node = Node(config, Announced(notifier))

    def stop() -> None:
        notifier.tell("STOPPING=1")
        node.life.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    beating = asyncio.ensure_future(notifier.beat(lambda: standing(node)))
    ended = threading.Event()
    give_back_often(ended)
    try:
        settle_memory()
        await node.run()
    finally:
        beating.cancel()
        ended.set()


def standing(node: Node) -> str:
    """Return one line for people: if the node leads, and in which term, or which leader it follows."""
    status = node.group_directory.home.status
    if status.leads:
        return f"leads term {status.term}"
    leader, term = status.leader, status.term
    return f"follows {leader} in term {term}" if leader is not None else "knows no leader"
