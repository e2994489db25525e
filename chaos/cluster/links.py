"""Directed links between nodes, and the conditions that faults put on them.

Several faults may hold one link at a time, and each ends by itself. A link is whole again when the last of them has
ended. So a fault calls `put` with a condition, and `lift` later. The state of a link follows from all conditions on it.
It is cut if one of them cuts it. Otherwise the narrowest bandwidth, the highest loss, and the delay that was put last
hold.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

Link = tuple[str, str]


@dataclass(frozen=True)
class Condition:
    """The condition of one direction between two nodes. `loss` and `duplicate` are shares of packets; a proxy has
    pieces of a stream in their place. The delay is uniform between `low_s` and `high_s`."""

    cut: bool = False
    loss: float = 0.0
    duplicate: float = 0.0
    low_s: float = 0.0
    high_s: float = 0.0
    bits_per_s: float = 0.0
    """0: no limit."""

    @property
    def shaped(self) -> bool:
        """True if packets or pieces that pass are changed."""
        return replace(self, cut=False) != WHOLE


WHOLE: Final = Condition()


def merged(conditions: Iterable[Condition]) -> Condition:
    """The condition of a link on which all of these were put, in this order."""
    found = WHOLE
    for each in conditions:
        narrow = [bits for bits in (found.bits_per_s, each.bits_per_s) if bits]
        low_s, high_s = (each.low_s, each.high_s) if each.high_s else (found.low_s, found.high_s)
        found = Condition(
            cut=found.cut or each.cut,
            loss=max(found.loss, each.loss),
            duplicate=max(found.duplicate, each.duplicate),
            low_s=low_s,
            high_s=high_s,
            bits_per_s=min(narrow, default=0.0),
        )
    return found


class Links(ABC):
    """All links of a cluster, and the conditions on them. A subclass carries the conditions out on its network, in
    `apply`."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[frozenset[Link], Condition]] = {}
        self._number = 0

    def put(self, links: Iterable[Link], condition: Condition) -> int:
        """Put a condition on links, beside those that are on them. Return a number, by which `lift` takes it away."""
        self._number += 1
        self._held[self._number] = (frozenset(links), condition)
        self._change(self._held[self._number][0])
        return self._number

    def lift(self, held: int) -> None:
        """Take away the condition with this number. Do nothing if `lift` or `heal` took it away before."""
        links, _ = self._held.pop(held, (frozenset(), WHOLE))
        self._change(links)

    def heal(self) -> None:
        """Take away all conditions, so that every link is whole."""
        links = frozenset(link for several, _ in self._held.values() for link in several)
        self._held.clear()
        self._change(links)

    def of(self, link: Link) -> Condition:
        """The present condition of a link."""
        return merged(condition for links, condition in self._held.values() if link in links)

    def _change(self, links: frozenset[Link]) -> None:
        if links:
            self.apply({link: self.of(link) for link in sorted(links)})

    @abstractmethod
    def apply(self, conditions: dict[Link, Condition]) -> None:
        """Make these links behave by these conditions, from now on."""
