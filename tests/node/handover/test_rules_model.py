"""The dispatcher in a random cluster (tests/node/model_ruled.py) whose leader asks a rule, by seed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import node.handover.ready_units
import node.leader.backlog
import node.leader.dispatcher
from node.ready.held_units import HeldUnits
from node.ready.windows import Ready
from tests.examples import replay, seeds
from tests.node.book import RecordingWheel
from tests.node.model_ruled import RuledModel

EVENTS = 400


def play(seed: int, directory: Path, monkeypatch: pytest.MonkeyPatch) -> RuledModel:
    """One history; two of three read the records, and ask of what is parked, in tiny pieces."""
    with monkeypatch.context() as patch:
        patch.setattr(node.leader.dispatcher, "SecondWheel", RecordingWheel)
        if seed % 3:
            patch.setattr(node.leader.backlog, "LOOK_ROWS", 16)
            patch.setattr(node.leader.backlog, "READ_ROWS", 5)
            patch.setattr(node.handover.ready_units, "PARKED_ROWS", 3)
        model = RuledModel(directory, seed)
        try:
            model.run(EVENTS)
        finally:
            model.close()
    return model


@seeds(10)
def test_random_history(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that the model without a rule holds true; and what the rule holds is neither handed over nor leased, is
    claimed once, and comes out when it lets go, though nobody says so."""
    try:
        model = play(seed, tmp_path, monkeypatch)
    except AssertionError as broken:
        again = replay("tests/node/handover/test_rules_model.py::test_random_history", seed)
        raise AssertionError(f"{broken}\n{again}") from broken
    assert model.rule.asked > 0


def test_the_histories_reach_what_they_are_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule holds units, lets them go, and strict pushes among them."""
    models = [play(seed, tmp_path / str(seed), monkeypatch) for seed in range(4)]
    assert sum(model.rule.held_units for model in models) > 200
    assert sum(model.early for model in models) > 10
    assert sum(model.filtered for model in models) > 5


FAULTS: dict[str, tuple[Any, str, Any]] = {
    "rules are not asked": (node.handover.ready_units, "ask_rules", lambda rules, store, seen, *_: seen),
    "not asked ahead": (
        node.handover.ready_units.ReadyUnits,
        "held",
        lambda self, positions, now_ms: np.zeros(len(positions), np.bool_),
    ),
    "nothing is asked again": (HeldUnits, "ask_all", lambda self: None),
    "what ended stays claimed": (Ready, "ended", lambda self, kind, subscription, units: None),
    "what is parked is nobody's": (HeldUnits, "park", lambda self, piece: None),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_turns_the_model_red(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each fault is found within a few seeds."""
    monkeypatch.setattr(*FAULTS[fault])

    def play_some() -> None:
        for seed in range(8):
            play(seed, tmp_path / str(seed), monkeypatch)

    with pytest.raises(AssertionError):
        play_some()
