"""Plants each mistake of mutants.toml in a copy of the tree and runs the tests that must find it.

    python deploy/mutants.py [NAME ...]        all of them if no name is given

The tests run on a copy without it first: what fails there proves nothing. Ends with 1 if that fails, if a
mutant survives, or if its text does not stand in its file exactly once (the code has moved: so must the list).
"""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_suffix(".toml")
AT_ONCE = 2
LIMIT_S = 300
PASSED, FAILED = 0, 1
"""What pytest ends with. Anything else is no verdict: nothing was collected, or not even imported."""


class Moved(Exception):
    """The text of a mutant is not in its file, or more than once."""


@dataclass(frozen=True)
class Mutant:
    """A mistake, and the arguments of pytest that find it."""

    name: str
    what: str
    file: str
    text: str
    replacement: str
    tests: tuple[str, ...]

    def planted(self, source: str) -> str:
        """The file's source with the mistake in it. Raises Moved."""
        found = source.count(self.text)
        if found != 1:
            raise Moved(f"the text of {self.name} stands {found} times in {self.file}")
        return source.replace(self.text, self.replacement)


def read(text: str) -> list[Mutant]:
    """The mutants of a list."""
    rows: dict[str, dict[str, Any]] = tomllib.loads(text)
    return [
        Mutant(name, row["what"], row["file"], row["text"], row["with"], tuple(row["tests"]))
        for name, row in rows.items()
    ]


def copied(root: Path, target: Path) -> None:
    """All files that git knows or does not ignore, as they are now."""
    listed = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if (root / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target / name)


def run(root: Path, mutant: Mutant | None, tests: tuple[str, ...]) -> int:
    """What pytest ends with in a copy of the tree, with this mistake or none; to hang is to fail. Raises Moved."""
    with tempfile.TemporaryDirectory(prefix="hourwheel-mutant-") as directory:
        copy = Path(directory)
        copied(root, copy)
        if mutant is not None:
            path = copy / mutant.file
            path.write_text(mutant.planted(path.read_text()))
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
        environment = os.environ | {"PYTHONPATH": directory, "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            ended = subprocess.run(command, cwd=copy, env=environment, capture_output=True, timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            return FAILED
        return ended.returncode


def verdict(root: Path, mutant: Mutant) -> str:
    """ "killed", or why not."""
    try:
        if run(root, None, mutant.tests) != PASSED:
            return "no verdict: its tests do not pass without it"
        ended = run(root, mutant, mutant.tests)
    except Moved as moved:
        return f"no verdict: {moved}"
    return {PASSED: "SURVIVED", FAILED: "killed"}.get(ended, f"no verdict: pytest ended with {ended}")


def main(names: list[str], root: Path = ROOT, listed: str | None = None) -> int:
    """Try these mutants and tell."""
    mutants = read(LIST.read_text() if listed is None else listed)
    unknown = set(names) - {mutant.name for mutant in mutants}
    if unknown:
        print(f"no mutant is called {', '.join(sorted(unknown))}")
        return 1
    wanted = [mutant for mutant in mutants if not names or mutant.name in names]
    killed = 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for mutant, said in zip(wanted, pool.map(lambda mutant: verdict(root, mutant), wanted), strict=True):
            print(f"{mutant.name:12} {said:10} {mutant.what}", flush=True)
            killed += said == "killed"
    print(f"{killed} of {len(wanted)} killed")
    return int(killed < len(wanted))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
