"""Resolves the target of a fault at the moment when it strikes.

The simulator and real processes share it. To resolve a target it asks which node leads. While no node leads, the last
leader counts, so that a plan always hits a node.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import permutations, product

from chaos.cluster.links import Link


class FaultTarget:
    """Resolves targets to node ids and links. `ids` returns all nodes, at least one. `leader` returns the leader, None
    if no node leads."""

    def __init__(self, ids: Callable[[], Sequence[str]], leader: Callable[[], str | None]) -> None:
        self._ids, self._leader_now = ids, leader
        self.leader = ids()[0]
        """The last leader that `nodes` was told of. At first it is the first node."""

    def nodes(self, target: str) -> list[str]:
        """The nodes of a node target: an id, a role or `*`. Empty for an id that is not there."""
        ids = self._ids()
        self.leader = self._leader_now() or self.leader
        match target:
            case "*":
                return list(ids)
            case "leader":
                return [self.leader]
        followers = [name for name in ids if name != self.leader]
        match target:
            case "follower":
                return followers[:1]
            case "last":
                return followers[-1:]
            case "followers":
                return followers
        return [target] if target in ids else []

    def named(self, target: str) -> str:
        """This target with node ids in place of `leader`, `follower`, `followers` and `last`."""
        return re.sub(r"leader|followers?|last", lambda role: ",".join(self.nodes(role[0])), target)

    def links(self, target: str) -> list[Link]:
        """The directed links that a link target names (`a>b` one way, `a-b` both ways), sorted."""
        return sorted(set(self._links(target)))

    def _links(self, target: str) -> Iterator[Link]:
        both = "-" in target
        a, b = target.split("-" if both else ">")
        for one in self.nodes(a):
            for other in self.nodes(b):
                if one != other:
                    yield one, other
                    if both:
                        yield other, one

    def apart(self, target: str) -> list[Link]:
        """The directed links between nodes of different groups in a partition's target, such as `n1|n2,n3`. A node is
        in the first group that names it."""
        groups: list[list[str]] = []
        for part in target.split("|"):
            found = {name for target in part.split(",") for name in self.nodes(target)}
            groups.append(sorted(found.difference(*groups)))
        return [link for group, others in permutations(groups, 2) for link in product(group, others)]
