"""A new state is a row: Spark reads its word."""

import numpy as np

from reconcile.spark.arrow import SETTLEMENT_COLUMNS, SettleRows
from storage.format.rows import SETTLE
from storage.format.states import STATES
from tests.storage.new_state import HALF, added


def _read(*what: int) -> list[str | None]:
    rows = np.zeros(len(what), SETTLE)
    rows["what"] = what
    found: list[str | None] = SETTLEMENT_COLUMNS["what"](SettleRows(1, np.arange(len(what)), rows)).to_pylist()
    return found


def test_each_record_has_its_word() -> None:
    """Null for a number without a row."""
    assert _read(*range(1, 9)) == [STATES[number].name for number in range(1, 9)]
    assert _read(0, 16) == [None, None]
    with added(HALF):
        assert _read(8, 16, 17) == ["forwarded", "half", None]
