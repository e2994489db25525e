"""Why an open unit may wait: each reason is a row, is shown by a test, and stands on the page for who runs a node."""

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from storage.format.hold_reasons import HOLD_REASONS, NUMBER_MAX, HoldReason, registered
from storage.format.registry import BadRow

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")

#: Reason -> the test in which a unit waits for it.
SHOWN = {
    "pause": "node/leader/test_dispatcher.py::test_a_paused_topic_keeps_its_units",
    "restored": "cli/data/test_restore.py::test_only_what_was_due_before_the_moment",
    "breaker": "node/push/test_lanes.py::test_ill_receivers_get_attempts_now_and_then",
    "operation": "node/operation/test_cancel_many.py::test_from_its_answer_on_nothing_goes_out",
    "limit": "node/push/test_lanes.py::test_a_saturated_receiver_blocks_its_own_units_only",
    "command": "node/leader/test_dispatcher.py::test_a_held_unit_waits_and_is_first_when_released",
    "attempts": "node/handover/test_handing_over.py::"
    "test_an_exhausted_unit_is_told_of_once_and_held_until_its_fail_has_a_result",
    "release": "node/handover/test_lease_ahead.py::"
    "test_48457_what_is_being_taken_back_is_handed_over_when_the_log_has_it",
    "strict": "node/handover/test_strict.py::test_a_pull_answers_when_its_lease_is_in_the_log",
    "commit": "node/leader/test_dispatcher.py::test_hand_over_stops_50_ms_after_the_oldest_uncommitted",
    "pace": "node/leader/test_dispatcher_promotion.py::"
    "test_overdue_is_paced_beside_what_is_due_now_and_never_before_it",
    "clock": "node/leader/test_dispatcher.py::test_a_clock_that_goes_back_hands_over_nothing_early_and_nothing_twice",
    "trust": "node/leader/test_dispatcher.py::test_nothing_without_trust_and_nothing_after_stepping_down",
}
NEW = HoldReason(200, "moon", True, "the moon is full")


def test_each_reason_is_shown_by_a_test() -> None:
    """One that no test walks through could be forgotten where a message is called lost."""
    assert SHOWN.keys() == HOLD_REASONS.keys()
    for name, test in SHOWN.items():
        path, _, function = test.partition("::")
        tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
        assert function in [node.name for node in tree.body if isinstance(node, ast.FunctionDef)], name


def test_the_page_has_the_reasons() -> None:
    """Each with its words, in their order."""
    known = {True: "any node, from the log", False: "the leader"}
    table = "".join(f"| {row.name} | {row.words} | {known[row.replicated]} |\n" for row in HOLD_REASONS.values())
    assert table in PAGE, table


def test_a_reason_of_a_test_is_one_more_row() -> None:
    """By name, in their order."""
    assert registered([*HOLD_REASONS.values(), NEW]) == {**HOLD_REASONS, NEW.name: NEW}
    assert list(HOLD_REASONS.values()) == sorted(HOLD_REASONS.values(), key=lambda row: row.number)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (replace(NEW, number=1), "hold reason moon: the number 1 is that of pause"),
        (replace(NEW, name="pause"), "hold reason pause stands here twice"),
        (replace(NEW, number=0), f"hold reason moon: a number is 1 to {NUMBER_MAX}, got 0"),
        (replace(NEW, number=256), f"hold reason moon: a number is 1 to {NUMBER_MAX}, got 256"),
        (replace(NEW, number=True), f"hold reason moon: a number is 1 to {NUMBER_MAX}, got True"),
        (replace(NEW, words=""), "hold reason moon has no words for people"),
        (replace(NEW, name=""), "hold reason 200 has no name"),
        (replace(NEW, replicated=1), "hold reason moon does not say whether it is replicated"),  # type: ignore[arg-type]
    ],
)
def test_a_row_that_cannot_be_is_refused_by_name(row: HoldReason, says: str) -> None:
    """When the registry is made: at import."""
    with pytest.raises(BadRow, match=says):
        registered([*HOLD_REASONS.values(), row])
