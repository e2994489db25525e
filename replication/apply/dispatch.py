"""Applies the commands of the dispatch state: the leader's dispatcher moves it on, and a new leader may set it back."""

from __future__ import annotations

from replication.apply.applying import Applying
from replication.command.dispatch import DispatchState, Realign


def apply_realign(applying: Applying, command: Realign) -> None:
    """Set the dispatch state to the one in the command, which may be earlier or later."""
    state = applying.dispatched
    state.tick, state.local_index, state.applied_index = command.tick, 0, command.applied_index
    state.now_ms = command.now_ms


def apply_dispatch_state(applying: Applying, command: DispatchState) -> None:
    """Move the dispatch state on to the one in the command. A command with an earlier state changes nothing."""
    state = applying.dispatched
    if (command.tick, command.local_index) >= (state.tick, state.local_index):
        state.tick, state.local_index = command.tick, command.local_index
        state.applied_index = command.applied_index
