"""What proxies make of a link's condition: when a piece of a stream arrives."""

import pytest

from chaos.cluster.links import Condition
from chaos.live.network.forwarder import AGAIN_S, Conditions

LINK = ("n1", "n2")


def in_condition(**fields: float) -> Conditions:
    """One link in this condition."""
    conditions = Conditions(seed=1)
    conditions.apply({LINK: Condition(**fields)})  # type: ignore[arg-type]
    return conditions


def test_whole_link_and_stranger_cost_nothing() -> None:
    """Clients and links without a fault."""
    narrow = in_condition(bits_per_s=8.0)
    assert narrow.arrives_s(None, 5.0, 1_000) == 5.0
    assert narrow.arrives_s(("n2", "n1"), 5.0, 1_000) == 5.0


def test_narrow_link_is_shared_by_all_that_passes_it() -> None:
    """A thousand bytes a second, in order."""
    narrow = in_condition(bits_per_s=8_000.0)
    assert [narrow.arrives_s(LINK, 0.0, 500) for _ in range(3)] == pytest.approx([0.5, 1.0, 1.5])
    assert narrow.arrives_s(LINK, 10.0, 500) == pytest.approx(10.5)


def test_delay_is_within_its_bounds() -> None:
    """Drawn anew for each piece."""
    slow = in_condition(low_s=0.02, high_s=0.08)
    took_s = [slow.arrives_s(LINK, 1.0, 100) - 1.0 for _ in range(100)]
    assert 0.02 <= min(took_s) < max(took_s) <= 0.08


def test_lost_piece_comes_after_a_retransmission() -> None:
    """A timeout later for each time that it is lost, doubled; the larger the piece, the likelier."""
    lossy = in_condition(loss=0.1)
    small = [round(lossy.arrives_s(LINK, 0.0, 100) / AGAIN_S) for _ in range(5_000)]
    assert set(small) >= {0, 1, 3}
    assert set(small) <= {0, 1, 3, 7, 15, 31, 63}
    assert sum(map(bool, small)) == pytest.approx(500, abs=100)
    large = [bool(lossy.arrives_s(LINK, 0.0, 14_000)) for _ in range(5_000)]
    assert sum(large) == pytest.approx(5_000 * (1 - 0.9**10), abs=150)


def test_cut_link_is_known_as_one() -> None:
    """A call is not put through; a stranger's always is."""
    conditions = Conditions(seed=1)
    conditions.apply({LINK: Condition(cut=True)})
    assert conditions.cut(LINK)
    assert not conditions.cut(("n2", "n1"))
    assert not conditions.cut(None)
    conditions.apply({LINK: Condition()})
    assert not conditions.cut(LINK)
