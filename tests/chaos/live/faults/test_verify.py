"""What `hourwheel verify` says of a data directory whose node is down."""

import sys
from pathlib import Path

import pytest

from chaos.cluster.cluster import ClusterFailed
from chaos.live.faults.verify import verify_command


def test_verify_of_this_build_is_asked_wherever_the_run_was_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing of ours is installed it could not begin, and seed 2101 had a damage that nobody found; now a
    verify that does not tell ends the run."""
    (tmp_path / "verify").write_text('#!/bin/sh\necho "$PYTHONPATH"\necho broken >&2\nexit ${VERIFY_ENDS:-0}\n')
    (tmp_path / "verify").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "verify"))
    monkeypatch.setenv("PYTHONPATH", "libraries")
    root = Path(__file__).resolve().parents[4]
    assert verify_command(tmp_path).stdout.strip() == f"{root}:{root}/client:libraries"
    monkeypatch.setenv("VERIFY_ENDS", "1")
    with pytest.raises(ClusterFailed, match="ended with 1: broken"):
        verify_command(tmp_path)
