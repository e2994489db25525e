"""What is written down of an attempt that has ended."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from node.port.push_port import PushDone
from node.push.outcomes import Outcome, took_ms

AT_MS = 1_800_000_000_000
DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("later_ms", "took"), [(0, 0), (12, 12), (-5_000, 0), (50 * DAY_MS, 0), (49 * DAY_MS, 49 * DAY_MS)]
)
def test_what_took_longer_than_a_record_holds_is_not_known(later_ms: int, took: int) -> None:
    """Seed 32095: all clocks were set forth by months while a push was under way, and its outcome was never written."""
    attempt: Any = SimpleNamespace(handed_over_ms=AT_MS)
    outcome = Outcome(attempt, PushDone(1, 200), AT_MS + later_ms)
    assert took_ms(outcome) == took
    np.array([took_ms(outcome)], np.uint32)
