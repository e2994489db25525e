"""The commands that our pages name, in code blocks and between backticks, and the words in capitals in them."""

import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
_PROGRAMS: Final = r"(?:hourwheel|make|python(?! -m`))"
_INLINE: Final = re.compile(rf"`({_PROGRAMS}\s[^`]+\w[^`]*)`")
_BLOCK: Final = re.compile(r"^```\w*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LINE: Final = re.compile(rf"^(?:\$ )?({_PROGRAMS}\s.*)$", re.MULTILINE)
#: Words behind two spaces or a number sign say what the command of a line does.
_SAID: Final = re.compile(r"\s{2,}|\s#")


def pages() -> list[Path]:
    """All pages of the repository, but the changelog, which names commands of former versions."""
    names = subprocess.check_output(["git", "ls-files", "*.md"], cwd=ROOT, text=True).splitlines()
    return [ROOT / name for name in names if name != "CHANGELOG.md"]


def commands(page: Path) -> Iterator[str]:
    """The commands of a page, as it has them."""
    text = page.read_text(encoding="utf-8")
    for block in _BLOCK.findall(text):
        for line in _LINE.findall(block):
            yield _SAID.split(line)[0].strip()
    for command in _INLINE.findall(_BLOCK.sub("", text)):
        yield " ".join(command.split())


def filled(command: str, values: Mapping[str, str | Iterator[str]]) -> list[str]:
    """The words of a command. `[optional]` parts are there, `...` is left out, and `values` replace words in capitals;
    a word with an iterator gets the next value each time."""
    words = shlex.split(command.replace("[", "").replace("]", "").replace("...", "").replace("..", ""))

    def value(found: re.Match[str]) -> str:
        given = values.get(found[0], found[0])
        return given if isinstance(given, str) else next(given)

    return [re.sub(r"\b[A-Z]+(?::[A-Z]+)?\b", value, word) for word in words]
