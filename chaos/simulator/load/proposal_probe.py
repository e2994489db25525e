"""Records which requests are in the entries that leaders propose, as `Proposal` events.

Only the requests that have `RequestAnswered` events are named. A wish and an atomic batch have the body of a message
for a name, an operation its kind and window.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

from chaos.client.many import operation_name
from chaos.history.event import Proposal
from chaos.history.history import History
from chaos.simulator.load.dispatched import replace_call
from chaos.simulator.time.cost import free
from node.group.group import Group
from replication.command.entry import Kind, Section, decode_entry
from replication.command.operation import BeginOperation
from replication.command.schedule import Schedule
from replication.command.supersede import ScheduleAll, Supersede
from storage.record.record_rewrite import read_drafts


class ProposalProbe:
    """Call `watch` with every new group before its node runs."""

    def __init__(self, history: History) -> None:
        self._history = history

    def watch(self, node_id: str, group: Group) -> None:
        """Observe what the group of one incarnation of a node proposes."""
        propose = group.raft.propose

        def proposed(blob: bytes, done: Callable[[Any], None]) -> None:
            before = group.raft.last_index
            propose(blob, done)
            if group.raft.last_index > before:
                self._record(node_id, blob)

        replace_call(group.raft, "propose", proposed)

    @free
    def _record(self, node_id: str, blob: bytes) -> None:
        names = [name for section in decode_entry(blob).sections for name in _names(section)]
        if names:
            crc = zlib.crc32(blob)
            self._history.record(Proposal(**self._history.stamp(), node=node_id, crc=crc, names=tuple(names)))


def _names(section: Section) -> list[str]:
    if section.kind == Kind.SUPERSEDE:
        return _bodies(Supersede.unpack(section).messages)
    if section.kind == Kind.SCHEDULE_ALL:
        return _bodies(ScheduleAll.unpack(section).messages)
    if section.kind == Kind.BEGIN_OPERATION:
        wish = BeginOperation.unpack(section).wish
        return [operation_name(wish.kind, wish.from_ms, wish.to_ms)]
    return []


def _bodies(messages: Schedule) -> list[str]:
    return [record.body.decode() for record in read_drafts(messages.blob, messages.size)]
