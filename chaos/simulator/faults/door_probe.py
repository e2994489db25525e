"""Compares what a node holds (term, vote, leader, log, members) right before and right behind each message of a
stranger."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chaos.history.event import Intruded
from chaos.history.history import History
from chaos.simulator.faults.stranger import HOST
from chaos.simulator.network.transport import SimTransport
from node.group.group import Group
from replication.wire.link import Connection


class DoorProbe:
    """The probe of one world. Call `watch` with every new group. It changes nothing that a node does."""

    def __init__(self, history: History) -> None:
        self._history = history

    def watch(self, node_id: str, group: Group) -> None:
        """Observe the messages that the group of one incarnation hears."""
        transport = group.transport
        assert isinstance(transport, SimTransport)
        admit = transport._door._admit

        def around(connection: Connection, what: str, hear: Callable[[], None]) -> None:
            if not connection.host.startswith(HOST):
                hear()
                return
            before = _standing(group)
            hear()
            self._tell(node_id, connection, what, _moved(before, _standing(group)))

        def admitted(connection: Connection, said: Any) -> None:
            admit(connection, said)
            if connection.host.startswith(HOST) and not connection.guest:
                self._tell(node_id, connection, "a greeting", f"it has the place of {said.node_id}")

        transport.around = around
        transport._door._admit = admitted

    def _tell(self, node_id: str, connection: Connection, what: str, moved: str) -> None:
        knows = connection.host.removeprefix(HOST)
        self._history.record(Intruded(**self._history.stamp(), node=node_id, knows=knows, what=what, moved=moved))


def _standing(group: Group) -> dict[str, Any]:
    raft = group.raft
    return {
        "term": raft.term,
        "vote": group.journal.getVotedForNodeId(),
        "role": raft.role,
        "leader": raft.leader_id,
        "log end": raft.last_index,
        "commit index": raft.commit_index,
        "members": group.transport.contacts,
        "end": raft.failure,
    }


def _moved(before: dict[str, Any], now: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value} -> {now[name]}" for name, value in before.items() if value != now[name])
