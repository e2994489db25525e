"""The window in which others may act for a leader."""

from types import SimpleNamespace
from typing import Any

import pytest

from node.handover.term import Leadership
from node.port.trust_window import TrustWindow

LEASE_END_MS = 101_000


@pytest.mark.parametrize(
    ("term", "now_s", "may"),
    [(7, 10.0, True), (6, 10.0, False), (8, 10.0, False), (7, 12.0, False), (7, 11.0, False), (7, 10.999, True)],
)
def test_a_hand_over_leaves_in_its_term_its_lease_and_the_leaders_trust(term: int, now_s: float, may: bool) -> None:
    """The node clock is 90 s ahead: the lease ends at second 11, trust at 12."""
    window = TrustWindow()
    window.open(7, 12.0, 90.0)
    assert window.covers(term, LEASE_END_MS, now_s) is may


def test_it_is_closed_at_first_and_when_it_was_closed() -> None:
    """For every term, 0 too, and however long trust lasts."""
    window = TrustWindow()
    assert not window.covers(0, LEASE_END_MS, 0.0)
    window.open(7, float("inf"), 0.0)
    assert window.covers(7, LEASE_END_MS, 0.0)
    window.close()
    assert not window.covers(7, LEASE_END_MS, 0.0)
    assert not window.covers(0, LEASE_END_MS, 0.0)


def test_it_is_open_while_this_node_leads_and_is_not_about_to_give_that_away() -> None:
    """It closes in the step of either, and opens again with what was known last."""
    leadership = Leadership[Any](SimpleNamespace(draining=False))  # type: ignore[arg-type]

    def may(term: int) -> bool:
        return leadership.window.covers(term, LEASE_END_MS, 1.0)

    leadership.renew(5.0, 0.0)
    assert not may(3), "nobody leads"
    leadership.term = SimpleNamespace(term=3)
    assert may(3)
    leadership.frozen = True
    leadership.renew(6.0, 0.0)
    assert not may(3)
    leadership.frozen = False
    assert may(3)
    assert not may(4)
    leadership.term = None
    assert not may(3)
