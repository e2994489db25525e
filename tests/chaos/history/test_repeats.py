"""The causes of repeated hand-overs."""

from chaos.history.bounds import Bounds
from chaos.history.history import History
from chaos.history.repeats import repeats
from tests.chaos.history.planted import EPOCH_MS, LEASE_MS, hand_over

AHEAD_MS = 2_541_000


def causes(again_ms: int, *, set_back: bool) -> list[str]:
    """The causes of the repeat of a hand-over, whose leader's clock was far ahead of the next one's."""
    ahead = {"handed_over_ms": EPOCH_MS + AHEAD_MS, "leased_until_ms": EPOCH_MS + AHEAD_MS + LEASE_MS}
    before = hand_over(1, 100, 1, begun_wall_ms=EPOCH_MS + 100, **ahead)
    after = hand_over(1, again_ms, 2, 2, begun_wall_ms=EPOCH_MS + again_ms)
    found = repeats(History([before, after]), Bounds(clocks_set_back=set_back))
    return [each.cause for each in found]


def test_1281_a_lease_runs_as_long_by_any_clock() -> None:
    """All clocks were set back by 42 minutes, so the end of the lease seemed to be far ahead."""
    assert causes(100 + LEASE_MS, set_back=True) == ["after_lease"]
    assert causes(99 + LEASE_MS, set_back=True) == ["failover"]
    assert causes(100 + LEASE_MS, set_back=False) == ["failover"]
