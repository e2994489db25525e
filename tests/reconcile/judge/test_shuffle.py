"""Rows set aside reach the bucket of their message, all of them, once, in the order in which they came."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ledger.bucket import BUCKET_UNITS, RECEIPT
from reconcile.judge.shuffle import buckets_of, by_bucket, gather, scatter
from tests.examples import examples

HOMES = st.builds(
    lambda hour, index: hour << 40 | index, st.integers(0, 3), st.sampled_from([0, 1, BUCKET_UNITS - 1, BUCKET_UNITS])
)


@examples(60)
@given(st.lists(HOMES, max_size=40))
def test_every_row_reaches_its_bucket_once(homes: list[int]) -> None:
    """The pieces of a bucket hold its rows and no others; equal homes keep their order."""
    rows = np.zeros(len(homes), RECEIPT)
    rows["home"], rows["at_ms"] = homes, np.arange(len(homes))
    with TemporaryDirectory() as directory:
        pieces = scatter(rows, Path(directory), "receipts")
        found = {key: gather(of_bucket, RECEIPT) for key, of_bucket in by_bucket(pieces).items()}
    assert sum(len(part) for part in found.values()) == len(homes)
    for key, part in found.items():
        hours, numbers = buckets_of(part["home"])
        assert {(int(hour), int(number)) for hour, number in zip(hours, numbers, strict=True)} == {key}
        expected = sorted((home, at) for at, home in enumerate(homes) if (home >> 40, (home >> 20) % (1 << 20)) == key)
        assert list(zip(part["home"].tolist(), part["at_ms"].tolist(), strict=True)) == expected


def test_no_rows_make_no_file(tmp_path: Path) -> None:
    """A task that met no stray leaves nothing behind."""
    assert scatter(np.zeros(0, RECEIPT), tmp_path, "strays") == []
    assert list(tmp_path.iterdir()) == []
    assert len(gather([], RECEIPT)) == 0
