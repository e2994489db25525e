"""`python -m bench.stages`: every stage is there, for every number at a time, and cost something."""

from pathlib import Path

from bench.stages import measure


def test_every_stage_has_a_time(tmp_path: Path) -> None:
    """In small; nothing is left behind."""
    found = measure(tmp_path, (1, 8), messages=40)
    checkpoint = found.pop("checkpoint, over 30 days")
    assert 0 < checkpoint[8] < 10_000
    assert list(found)[:6] == [
        "parse",
        "draft: due times, records",
        "draft in a front, as bytes",
        "draft read, joined, stamped",
        "entry",
        "apply, near hours",
    ]
    assert list(found)[-2:] == ["read receipts", "apply acks"]
    for name, by_rows in found.items():
        assert by_rows.keys() == {1, 8}, name
        assert all(0 < each_us < 100_000 for each_us in by_rows.values()), name
    assert list(tmp_path.iterdir()) == []
