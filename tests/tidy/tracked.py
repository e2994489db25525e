"""The files of the project, as git knows them."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def tracked(pattern: str) -> list[Path]:
    """Every file of this pattern, such as `*.py`, that git tracks or would track."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", pattern],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [ROOT / line for line in listed.stdout.split() if (ROOT / line).exists()]
