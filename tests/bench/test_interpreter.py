"""`python -m bench.interpreter`: each checkpoint has its longest wait."""

from pathlib import Path

from bench.interpreter import measure


def test_every_checkpoint_has_a_longest_wait(tmp_path: Path) -> None:
    """In small: a number for each, and the store is whole."""
    assert all(0 <= ms < 60_000 for ms in measure(tmp_path, 3, rounds=2))
    assert len(list((tmp_path / "hours").iterdir())) > 100
