"""The list of mutants fits the code as it is, and the runner tells the three verdicts apart."""

import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
RUNNER = runpy.run_path(str(ROOT / "deploy" / "mutants.py"))
MUTANTS = RUNNER["read"]((ROOT / "deploy" / "mutants.toml").read_text())

CODE = """
def double(number):
    return 2 * number
"""
TESTS = """
from code_of import double

def test_double():
    assert double(2) == 4
"""
LISTED = """
[found]
what = "Trebled"
file = "code_of.py"
text = "2 * number"
with = "3 * number"
tests = ["test_it.py"]

[missed]
what = "Squared"
file = "code_of.py"
text = "2 * number"
with = "number * number"
tests = ["test_it.py"]

[moved]
what = "The code was written anew"
file = "code_of.py"
text = "number + number"
with = "number"
tests = ["test_it.py"]

[broken]
what = "It cannot even be imported"
file = "code_of.py"
text = "return"
with = "retrun"
tests = ["test_it.py"]
"""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: str(mutant.name))
def test_the_text_is_there_once(mutant: Any) -> None:
    """Who moves a line moves it in the list too, and who renames a test; the code with the mistake can be read."""
    source = (ROOT / mutant.file).read_text()
    mistaken = RUNNER["Mutant"].planted(mutant, source)
    assert mistaken != source
    compile(mistaken, mutant.file, "exec")
    assert mutant.tests
    for test in mutant.tests:
        file, _, name = test.partition("::")
        assert not name or f"def {name.partition('[')[0]}(" in (ROOT / file).read_text(), test
        assert (ROOT / file).name.startswith("test_"), test


def test_verdicts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Killed, survived, moved, and no verdict where nothing was tested; the tree itself stays as it is."""
    (tmp_path / "code_of.py").write_text(CODE)
    (tmp_path / "test_it.py").write_text(TESTS)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    assert RUNNER["main"]([], tmp_path, LISTED) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[:2]] == [["found", "killed"], ["missed", "SURVIVED"]]
    assert "no verdict: the text of moved stands 0 times in code_of.py" in lines[2]
    assert "no verdict: pytest ended with 2" in lines[3]
    assert lines[4] == "1 of 4 killed"
    assert RUNNER["main"](["found"], tmp_path, LISTED) == 0
    assert RUNNER["main"](["lost"], tmp_path, LISTED) == 1
    assert (tmp_path / "code_of.py").read_text() == CODE
