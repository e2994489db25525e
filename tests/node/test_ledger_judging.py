"""From accounts to verdicts: since when an account counts as whole."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from node.ledger_judging import _covered_from
from storage.format import LEASED, SETTLE

NOW_MS = 1_790_000_000_000


def story(leased_ms: int = 0, node: int = 1) -> Any:
    """Of messages that this node leased then, by their records; 0: of none."""
    settles = np.zeros(1 if leased_ms else 0, SETTLE)
    settles["what"], settles["node"], settles["at_ms"] = LEASED, node, leased_ms
    return SimpleNamespace(trail=SimpleNamespace(settles=settles), abroad=settles[:0])


@pytest.mark.parametrize(
    ("leased_ms", "first_ms", "removed", "from_ms"),
    [
        (0, NOW_MS, False, 0),
        (NOW_MS, NOW_MS, False, 0),
        (NOW_MS, NOW_MS, True, NOW_MS + 1),
        (NOW_MS - 10_000, NOW_MS, False, NOW_MS + 1),
        (0, 0, False, 0),
    ],
)
def test_52812_an_account_does_not_cover_the_millisecond_of_its_first_record(
    leased_ms: int, first_ms: int, removed: bool, from_ms: int
) -> None:
    """A hand-over stood last in a file that went by age, and the next file began in the same millisecond: the message
    was delivered, and `lost`."""
    assert _covered_from(story(leased_ms), 1, first_ms, removed) == from_ms
