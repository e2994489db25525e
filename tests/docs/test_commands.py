"""Each command of our pages is one that its program takes: subcommand, options, names and number of arguments."""

import importlib.util
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final, cast

import click
import pytest

from cli.main import main
from tests.docs.commands import ROOT, commands, filled, pages

NAMED: Final = sorted({command for page in pages() for command in commands(page)})
VALUES: Final = {
    "ID": "2000F6ZV000000007YNAWWBVVX",
    "HOST:PORT": "127.0.0.1:7500",
    "NODE": "n1",
    "START": "-1h",
    "END": "now",
    "N": "2",
}


def of(program: str) -> list[str]:
    """The commands of one program."""
    found = [command for command in NAMED if command.startswith(f"{program} ")]
    assert found
    return found


@pytest.mark.parametrize("command", of("hourwheel"))
def test_hourwheel_takes_it(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All its arguments are read. A subcommand alone, or with names of options alone, only names those."""
    monkeypatch.chdir(tmp_path)
    for name in re.findall(r"\S+\.(?:toml|plan)", command):
        (tmp_path / name).touch()
    words = filled(command, VALUES)[1:]
    context, given = click.Context(main), cast("click.Command", main)
    while isinstance(given, click.Group) and words and not words[0].startswith("-"):
        name, found, words = given.resolve_command(context, words)
        assert found is not None, f"{command}: no command {name}"
        context, given = click.Context(found, parent=context, info_name=name), found
    if all(word.startswith("--") for word in words):
        known = {option for parameter in given.get_params(context) for option in parameter.opts}
        assert set(words) <= known
    else:
        given.make_context(context.info_name, words, parent=context.parent)


@pytest.mark.parametrize("command", of("make"))
def test_make_has_the_target(command: str) -> None:
    """The Makefile has a rule for it."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{re.escape(command.split()[1])}:", makefile, re.MULTILINE)


@cache
def help_of(module: str) -> str:
    """The text that `python -m MODULE --help` shows."""
    command = [sys.executable, "-m", module, "--help"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return re.sub(r"-\n\s+", "-", shown.stdout)


@pytest.mark.parametrize("command", of("python"))
def test_python_has_the_program(command: str) -> None:
    """Its help names each option, and each name that the command gives."""
    _, *words = filled(command, VALUES)
    if words[0] != "-m":
        assert (ROOT / words[0]).is_file()
        return
    assert importlib.util.find_spec(words[1]) is not None
    shown = help_of(words[1]) if words[2:] else ""
    for word in words[2:]:
        assert re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", shown) or re.fullmatch(r"[A-Z]+|\d+", word), shown
