"""Many seeds on real processes: a red one does not end the others, and each verdict is told."""

from pathlib import Path

from chaos.live.soak import Verdict, run_seed, soak, telling


def test_a_red_seed_is_told_and_the_others_go_on() -> None:
    """Each verdict, then a summary; how many were red."""
    lines: list[str] = []
    red = soak(range(7, 10), lambda seed: Verdict(seed, seed % 2, ("VIOLATIONS: 1", "BROKEN: x")), lines.append)
    assert red == 2
    assert lines == [
        "seed 7: RED: VIOLATIONS: 1\nBROKEN: x",
        "seed 8: green: VIOLATIONS: 1\nBROKEN: x",
        "seed 9: RED: VIOLATIONS: 1\nBROKEN: x",
        "red: 2 (seeds 7, 9)",
    ]


def test_what_a_run_said_is_kept_and_its_verdict_told(tmp_path: Path) -> None:
    """A run of its own process; one that is refused is red, with its reason."""
    (tmp_path / "990101").mkdir()
    verdict = run_seed(990101, tmp_path / "990101", ["--duration", "10s"])
    assert verdict.status != 0
    assert "exists" in verdict.said[0]
    assert (tmp_path / "990101" / "said.txt").read_text().strip() == "\n".join(verdict.said)
    assert telling("   1.0 s  acknowledged 5\nheld: x (L: lost 0)\nviolations: none") == ("violations: none",)
    assert telling("BROKEN: x (L: lost 4)\n   lost: 4\nVIOLATIONS: 1") == ("BROKEN: x (L: lost 4)", "VIOLATIONS: 1")
