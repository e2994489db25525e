"""constraints.txt holds what develops and tests, for every Python, and says nothing of where it comes from."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINES = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()[1:]


def test_every_line_is_a_version() -> None:
    """No host, no hash, no range."""
    for line in LINES:
        assert re.fullmatch(r"[a-z0-9-]+==[0-9a-z.]+( ; python_version (<|>=) \"3\.1\d\"( and .*)?)?", line), line


def test_all_that_is_asked_for_is_held() -> None:
    """The product's dependencies, those of development and those of Spark."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [*project["dependencies"], *(each for extra in project["optional-dependencies"].values() for each in extra)]
    held = {line.partition("==")[0] for line in LINES}
    assert {re.split(r"[<>=; ]", each)[0] for each in asked} <= held


def test_versions_that_differ_have_a_line_for_each(tmp_path: Path) -> None:
    """The oldest and the newest Python that were asked stand for those beyond them."""
    for python, frozen in {"3.11": "a==1\nB_c==1\n", "3.12": "a==2\nB_c==1\n", "3.13": "a==3\nd==1\n"}.items():
        (tmp_path / python).write_text(frozen)
    command = [sys.executable, str(ROOT / "deploy/constraints.py"), "merge", *map(str, sorted(tmp_path.iterdir()))]
    merged = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[1:]
    assert merged == [
        'a==1 ; python_version < "3.12"',
        'a==2 ; python_version >= "3.12" and python_version < "3.13"',
        'a==3 ; python_version >= "3.13"',
        "b-c==1",
        "d==1",
    ]
