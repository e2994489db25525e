"""The groups of a node as its front knows them: for each number a port and the newest status. Also finds the group of a
topic, an id or a receipt.

A group that has failed, or that is being opened again, has no port; it is called "gone" here. Its last status still
names its leader, so requests go on to that node as before.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from api.port.problem import Problem
from node.port.group_port import GroupPort, GroupStatus
from node.port.receipt import Receipts
from node.port.trust_window import SentWindow
from storage.format.message_id import BadId, decode_id


class Place:
    """One group of the node. `status` is the newest that came. `receipts` makes and checks its receipts. `sent` is the
    trust window for messages that another node hands over for it."""

    def __init__(self, number: int, node: str, changed: Callable[[], None]) -> None:
        self.number = number
        self.status = GroupStatus(group=number, node=node)
        self.sent = SentWindow()
        self._changed = [changed]
        self._remote: GroupPort | None = None
        self.reaches_leader = False
        """True if the leader, known or yet to come, can be asked by calls between nodes."""
        self._heard: Callable[[GroupStatus], None] = lambda status: None
        self._opening = False  # the group was away, and has heard of no leader since
        self._port: GroupPort | None = None
        self._receipts: Receipts | None = None

    @property
    def port(self) -> GroupPort:
        """The group on this node. Raises `no-leader` while the group is gone."""
        if self._port is None:
            raise Problem("no-leader", f"group {self.number} of this node is being opened; nothing happened")
        return self._port

    @property
    def leading(self) -> GroupPort:
        """The group on the node that leads it: this node or another. Raises `no-leader` as `port` does."""
        return self.port if self.status.leads or self._remote is None else self._remote

    @property
    def receipts(self) -> Receipts:
        """Makes and checks the receipts of this group. Raises `no-leader` if the cluster is not founded yet."""
        if self._receipts is None:
            raise Problem("no-leader", "the cluster is not founded yet; nothing happened")
        return self._receipts

    def attach(self, port: GroupPort) -> None:
        """Take the port of a group that was opened."""
        self._port = port
        port.attach(lambda status: self._told_by(port, status))

    def detach(self) -> None:
        """Note that the group is gone and leads nothing here. Until the group reports a leader again, requests go to
        the leader that it knew last."""
        self._port = None
        self._told(replace(self.status, leads=False))
        self._opening = True

    def lead_elsewhere(self, remote: GroupPort, changed: Callable[[], None]) -> None:
        """Use the port `remote` while another node leads. Call `changed` after each change of the leader, its address
        or the term, because requests may then have to go to another node."""
        self._remote = remote
        self._changed.append(changed)
        self.reaches_leader = _reaches_leader(self.status)

    def listen(self, heard: Callable[[GroupStatus], None]) -> None:
        """Call `heard` with every status from now on."""
        self._heard = heard

    def _told_by(self, port: GroupPort, status: GroupStatus) -> None:
        if port is self._port:  # one that is gone still sees what becomes of it
            self._told(status)

    def _told(self, status: GroupStatus) -> None:
        before = self.status
        if self._opening and status.leader is None:
            status = replace(status, leader_http=before.leader_http)
        self._opening = self._opening and status.leader is None
        self.status = status
        self.reaches_leader = self._remote is not None and _reaches_leader(status)
        self._heard(status)
        ways = [(each.leader, each.leader_http, each.leads, each.term) for each in (before, status)]
        if status.receipts is not None and status.receipts != before.receipts:
            key, whole = status.receipts, status.receipts.whole
            self._receipts = Receipts(key.secret, lambda: whole, self.number)
        if ways[0] != ways[1]:
            for changed in self._changed:
                changed()


def _reaches_leader(status: GroupStatus) -> bool:
    asked = [peer for peer in status.peers if status.leader_http is None or peer.node == status.leader]
    return all(peer.calls for peer in asked)


class GroupDirectory:
    """Finds a group by its number, and the group of a topic or a message. Today all topics are in the first group."""

    def __init__(self, node: str, numbers: tuple[int, ...], changed: Callable[[], None]) -> None:
        """`changed` is called after each change of a group's leader, its address or the term, because requests may then
        have to go to another node."""
        self._places = {number: Place(number, node, changed) for number in numbers}
        #: The group of all topics that no map assigns to another, and of requests about the node.
        self.home = self._places[numbers[0]]
        #: Topics of other groups, for tests. There is no map of them yet.
        self.numbers: dict[str, int] = {}

    def of_number(self, number: int) -> Place:
        """Return the group with this number, which must be one of this node's."""
        return self._places[number]

    def of_topic(self, topic: str | None) -> Place:
        """Return the group that keeps the messages of this topic. None is for requests that name no topic."""
        if topic is None or topic not in self.numbers:
            return self.home
        return self._places[self.numbers[topic]]

    def of_message(self, id: str) -> Place:
        """Return the group of the message with this id. For text that is no id, and for ids of groups that are not
        here, return `home`, which refuses them."""
        if len(self._places) == 1:
            return self.home
        try:
            return self._places.get(decode_id(id).group, self.home)
        except BadId:
            return self.home

    def attach(self, port: GroupPort) -> None:
        """Take the port of a group that was opened."""
        self._places[port.number].attach(port)

    def detach(self, number: int) -> None:
        """Note that the group with this number is gone."""
        self._places[number].detach()
