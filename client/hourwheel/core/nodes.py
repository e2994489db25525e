"""The nodes of one cluster as a client knows them, and which to ask next."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from hourwheel.core.addresses import Address, BadAddress, parse_address

#: For this long a node that failed is asked after all others.
AWAY_S: Final = 10.0


class Nodes:
    """The addresses of one cluster, and which of them to ask first. It has no clock: `now_s` may come from any clock
    that does not go back.

    `leader_first`: the leader is asked first once it is known, so that no other node has to pass the request on.
    Without it the given addresses come first, in their order. A learned address may have a name that only nodes can
    resolve.
    """

    def __init__(self, given: Iterable[Address], *, leader_first: bool = True, away_s: float = AWAY_S) -> None:
        self.given = tuple(dict.fromkeys(given))
        if not self.given:
            raise ValueError("a cluster has an address at least")
        self.leader_first, self.away_s = leader_first, away_s
        self.cluster_id = ""
        self.term = 0
        self.leader_id = ""
        #: Each member's id and its address, as GET /v1/cluster had them last.
        self.members: dict[str, Address] = {}
        self._failed_s: dict[Address, float] = {}

    @property
    def leader(self) -> Address | None:
        """The leader's address, if it is known."""
        return self.members.get(self.leader_id)

    @property
    def addresses(self) -> tuple[Address, ...]:
        """All known addresses: the given ones, then the learned ones."""
        return tuple(dict.fromkeys((*self.given, *self.members.values())))

    def order(self, now_s: float) -> list[Address]:
        """Return all addresses in the order in which to ask them. Nodes that failed lately come last; among these, the
        one that failed longest ago comes first."""
        preferred = [self.leader] if self.leader is not None else []
        known = [*preferred, *self.addresses] if self.leader_first else [*self.given, *preferred, *self.addresses]
        away = {address: at_s for address, at_s in self._failed_s.items() if now_s < at_s + self.away_s}
        places = {address: place for place, address in enumerate(dict.fromkeys(known))}
        return sorted(places, key=lambda address: (address in away, away.get(address, 0.0), places[address]))

    def failed(self, address: Address, now_s: float) -> None:
        """Ask this node last for a while: it was unreachable, silent or draining."""
        self._failed_s[address] = now_s

    def answered(self, address: Address) -> None:
        """Note that this node serves, so that it is no longer asked last."""
        self._failed_s.pop(address, None)

    def learn_cluster(self, document: Mapping[str, Any]) -> None:
        """Take the members and the leader from a document of GET /v1/cluster.

        A document is ignored if it has another cluster's id, or an older term than the newest document so far.
        """
        cluster_id, term = document.get("cluster_id"), document.get("term")
        if not isinstance(cluster_id, str) or not isinstance(term, int) or term < self.term:
            return
        if self.cluster_id not in ("", cluster_id):
            return
        members = members_of(document)
        if members:
            self.cluster_id, self.members = cluster_id, members
            self._failed_s = {address: at_s for address, at_s in self._failed_s.items() if address in self.addresses}
            leader = document.get("leader")
            known = isinstance(leader, str) and bool(leader)
            if term > self.term or known:  # a node that knows no leader takes away only the leader of an older term
                self.term, self.leader_id = term, str(leader) if known else ""


def members_of(document: Mapping[str, Any]) -> dict[str, Address]:
    """Each member's id and address in a document of GET /v1/cluster. What cannot be read is left out."""
    nodes = document.get("nodes")
    found: dict[str, Address] = {}
    for node in nodes if isinstance(nodes, list) else ():
        if isinstance(node, Mapping) and isinstance(node.get("id"), str) and isinstance(node.get("http"), str):
            try:
                found[node["id"]] = parse_address(node["http"])
            except BadAddress:
                continue
    return found
