"""How the dispatch state follows the leader's dispatcher, and how a new leader sets it back."""

from __future__ import annotations

from replication.apply.applying import Applying
from replication.command.dispatch import DispatchState, Realign


def apply_realign(applying: Applying, command: Realign) -> None:
    """Set the dispatch state, back or forth."""
    state = applying.dispatched
    state.tick, state.local_index, state.applied_index = command.tick, 0, command.applied_index
    state.now_ms = command.now_ms


def apply_dispatch_state(applying: Applying, command: DispatchState) -> None:
    """Move the dispatch state on. A state that is behind changes nothing."""
    state = applying.dispatched
    if (command.tick, command.local_index) >= (state.tick, state.local_index):
        state.tick, state.local_index = command.tick, command.local_index
        state.applied_index = command.applied_index
