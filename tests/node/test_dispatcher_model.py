"""The dispatcher in a random cluster (tests/node/model.py), by seed. A failing seed prints how to play it again."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import node.dispatcher
import node.sweep
from node.claim import Claims
from node.dispatcher import Dispatcher
from node.hold import Holds
from node.lease_book import LeaseBook, LeaseEnds
from node.outlet import Outlet
from node.sweep import Sweep
from node.taking import Taking
from node.window import LaneKind, Queued
from replication.command import DispatchState
from tests.node.book import RecordingWheel
from tests.node.model import Model

SEEDS = [int(os.environ["DISPATCHER_SEED"])] if "DISPATCHER_SEED" in os.environ else range(20)
EVENTS = int(os.environ.get("DISPATCHER_EVENTS", "500"))


def play(seed: int, events: int, directory: Path, monkeypatch: pytest.MonkeyPatch) -> Model:
    """One history; two of three read the records in tiny pieces."""
    with monkeypatch.context() as patch:
        patch.setattr(node.dispatcher, "SecondWheel", RecordingWheel)
        if seed % 3:
            patch.setattr(node.sweep, "LOOK_ROWS", 16)
            patch.setattr(node.sweep, "READ_ROWS", 5)
        model = Model(directory, seed)
        try:
            model.run(events)
        finally:
            model.close()
    return model


@pytest.mark.parametrize("seed", SEEDS)
def test_random_history(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing early, nothing twice under a lease, nothing lost; the state names what was dispatched; at a promotion
    everything open comes back once; the failover duplicates of a term change span less than 50 ms."""
    try:
        play(seed, EVENTS, tmp_path, monkeypatch)
    except AssertionError as broken:
        replay = f"DISPATCHER_SEED={seed} DISPATCHER_EVENTS={EVENTS} pytest tests/node/test_dispatcher_model.py"
        raise AssertionError(f"{broken}\nplay it again: {replay}") from broken


def test_the_histories_reach_what_they_are_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen in a few of them: leaders that take hand-overs with them, units that come again, several terms."""
    models = [play(seed, 500, tmp_path / str(seed), monkeypatch) for seed in range(4)]
    units = [unit for model in models for unit in model.units.values()]
    assert max(span_ms for model in models for span_ms in model.spans_ms) > 0
    assert sum(unit.seen[1] > 1 for unit in units) > 50
    assert sum(unit.seen == (0, 0) for unit in units) > 0, "some were cancelled in time"
    assert all(model.reign.term > 1 for model in models)


def state_of_this_moment(self: Dispatcher) -> DispatchState:
    """Names entries that were merged since the last step."""
    return DispatchState(self._state.tick, self._state.local_index, self._merged)


def checked_nothing(
    self: Outlet, kind: LaneKind, topic: int, units: Queued, most: int, now_ms: int, taking: Taking
) -> int:
    """Hands over whatever stands in the window, whether or not it has ended."""
    attempts = self._store.states(units.position).attempt + np.uint16(1)
    return taking.add(units.position, attempts, self._store.units(units.position))


FAULTS: dict[str, tuple[type, str, Any]] = {
    "no stop rule": (LeaseBook, "allows", lambda self, now_ms: True),
    "held units go out": (Holds, "mask", lambda self, positions: positions < 0),
    "state of this moment": (Dispatcher, "dispatch_state", state_of_this_moment),
    "nothing is promoted": (Sweep, "promote", lambda self, last_hour: None),
    "leases never end": (LeaseEnds, "add", lambda self, positions, lease_end_ms, now_ms: None),
    "ended leases are forgotten": (Sweep, "ended", lambda self, spans: None),
    "nothing is claimed": (Claims, "mask", lambda self, positions: positions < 0),
    "records are not asked": (Outlet, "_give", checked_nothing),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_turns_the_model_red(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each fault is found within a few seeds."""
    monkeypatch.setattr(*FAULTS[fault])

    def play_some() -> None:
        for seed in range(12):
            play(seed, 400, tmp_path / str(seed), monkeypatch)

    with pytest.raises(AssertionError):
        play_some()
