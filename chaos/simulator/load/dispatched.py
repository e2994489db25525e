"""Compares the units that a leader has dispatched with those that its dispatch state counts."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np

from chaos.simulator.time.cost import free
from node.group.group import Group
from node.leader.leader_term import LeaderTerm
from storage.format.array import U64
from storage.format.position import MS_PER_TICK
from storage.format.states import LEASED, PENDING
from storage.wheel.slot import DueUnits


class Dispatched:
    """Keeps the units that entries of one term made, and which of them the leader has dispatched. `left_out` compares
    both with a dispatch state."""

    def __init__(self, group: Group, leader_term: LeaderTerm) -> None:
        self._group = group
        self._pending: list[tuple[int, int, int]] = []  # heap of (due_ms, position, index of the entry)
        self._seen: set[int] = set()
        ready, lease_ahead = leader_term.dispatcher._ready, leader_term.handing_over.lease_ahead
        push, unplanned = ready.push, lease_ahead.unplanned

        def pushed(kind: Any, topics: Any, units: Any, *, swept: bool = False) -> None:
            self._seen.update(units.position.tolist())
            push(kind, topics, units, swept=swept)

        def given(due: DueUnits) -> DueUnits:
            left = unplanned(due)
            self._on_their_way(np.setdiff1d(due.position, left.position))
            return left

        replace_call(ready, "push", pushed)
        replace_call(lease_ahead, "unplanned", given)

    @free
    def _on_their_way(self, positions: U64) -> None:
        """Note units that the wheel gave out, and that went to no ready window because their lease was planned ahead.
        They count as dispatched if that lease runs now. It may be taken back later, even before the next state."""
        leased = self._group.store.states(positions).state == LEASED
        self._seen.update(positions[leased].tolist())

    def made(self, index: int, units: list[tuple[int, int]]) -> None:
        """Note the units that the entry at `index` made, as (position, due_ms)."""
        for position, due_ms in units:
            heapq.heappush(self._pending, (due_ms, position, index))

    @free
    def left_out(self, tick: int, applied_index: int) -> list[tuple[int, int]]:
        """(position, due_ms) of each open unit that a dispatch state counts and the leader did not dispatch. The state
        counts units due before slot `tick`, of entries up to `applied_index`. Each is returned once."""
        later: list[tuple[int, int, int]] = []
        left: list[tuple[int, int]] = []
        while self._pending and self._pending[0][0] < tick * MS_PER_TICK:
            due_ms, position, index = heapq.heappop(self._pending)
            if index > applied_index:
                later.append((due_ms, position, index))
                continue
            if position not in self._seen and self._is_open(position):
                left.append((position, due_ms))
            self._seen.discard(position)
        for unit in later:
            heapq.heappush(self._pending, unit)
        return left

    def _is_open(self, position: int) -> bool:
        states = self._group.store.states(np.array([position], np.uint64))
        return int(states.state[0]) == PENDING


def replace_call(owner: object, name: str, call: Any) -> None:
    """Replace a method of this one object by `call`."""
    setattr(owner, name, call)
