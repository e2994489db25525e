"""Plants each mistake of mutants.toml in a copy of the tree and runs the tests that must find it.

    python deploy/mutants.py [NAME ...]        all of them if no name is given

First all their tests run on the copy without a mistake, because a test that fails there proves nothing. The exit status
is 1 in three cases:
- a test fails without a mistake
- a mutant survives
- the text of a mutant does not stand in its file exactly once. The code has moved, so the list must too.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path
from queue import SimpleQueue
from typing import Any

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_suffix(".toml")
AT_ONCE = 2
LIMIT_S = 300
"""Time for the tests of one mutant."""
PASSED, FAILED = 0, 1
"""Exit statuses of pytest. Any other is no verdict: nothing was collected, or not even imported."""


class Moved(Exception):
    """The text of a mutant is not in its file, or more than once."""


@dataclass(frozen=True)
class Mutant:
    """A mistake, and the tests that find it: files, or test names behind a file's."""

    name: str
    what: str
    file: str
    text: str
    replacement: str
    tests: tuple[str, ...]

    def planted(self, source: str) -> str:
        """Return the file's source with the mistake in it. Raises Moved."""
        found = source.count(self.text)
        if found != 1:
            raise Moved(f"the text of {self.name} stands {found} times in {self.file}")
        return source.replace(self.text, self.replacement)


def read(text: str) -> list[Mutant]:
    """Return the mutants of a list."""
    rows: dict[str, dict[str, Any]] = tomllib.loads(text)
    return [
        Mutant(name, row["what"], row["file"], row["text"], row["with"], tuple(row["tests"]))
        for name, row in rows.items()
    ]


def copied(root: Path, target: Path) -> Path:
    """Copy all files that git tracks or does not ignore, as they are now. Return `target`."""
    listed = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if (root / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target / name)
    return target


@contextmanager
def planted(copy: Path, mutant: Mutant) -> Iterator[None]:
    """Plant the mistake in the copy, for the time of the block. Raises Moved."""
    path = copy / mutant.file
    sound, at = path.read_bytes(), path.stat()
    mistaken = mutant.planted(sound.decode())
    Path(cache_from_source(str(path))).unlink(missing_ok=True)  # Python compares only whole seconds and the size
    path.write_text(mistaken)
    try:
        yield
    finally:
        path.write_bytes(sound)
        os.utime(path, ns=(at.st_atime_ns, at.st_mtime_ns))


def run(copy: Path, tests: Sequence[str], *, limit_s: float = LIMIT_S, compiled: bool = False) -> int:
    """Return the exit status of pytest in a copy of the tree. A run of more than `limit_s` is a failure. `compiled`:
    keep compiled modules."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    environment = os.environ | {"PYTHONPATH": str(copy)} | ({} if compiled else {"PYTHONDONTWRITEBYTECODE": "1"})
    try:
        return subprocess.run(command, cwd=copy, env=environment, capture_output=True, timeout=limit_s).returncode
    except subprocess.TimeoutExpired:
        return FAILED


def verdict(copy: Path, mutant: Mutant, *, sound: bool) -> str:
    """Return "killed", or the reason why not. `sound`: its tests are known to pass without the mistake."""
    if not sound and run(copy, mutant.tests) != PASSED:
        return "no verdict: its tests do not pass without it"
    try:
        with planted(copy, mutant):
            ended = run(copy, mutant.tests)
    except Moved as moved:
        return f"no verdict: {moved}"
    return {PASSED: "SURVIVED", FAILED: "killed"}.get(ended, f"no verdict: pytest ended with {ended}")


def verdicts(root: Path, mutants: Sequence[Mutant]) -> Iterator[tuple[Mutant, str]]:
    """Yield each mutant and its verdict, in order."""
    with tempfile.TemporaryDirectory(prefix="hourwheel-mutants-") as directory, ThreadPoolExecutor(AT_ONCE) as pool:
        first = copied(root, Path(directory) / "0")
        tests = sorted({test for mutant in mutants for test in mutant.tests})
        sound = run(first, tests, limit_s=LIMIT_S * len(mutants), compiled=True) == PASSED
        copies: SimpleQueue[Path] = SimpleQueue()
        copies.put(first)
        for number in range(1, AT_ONCE):
            copies.put(Path(shutil.copytree(first, Path(directory) / str(number))))

        def tried(mutant: Mutant) -> str:
            copy = copies.get()
            try:
                return verdict(copy, mutant, sound=sound)
            finally:
                copies.put(copy)

        yield from zip(mutants, pool.map(tried, mutants), strict=True)


def main(names: list[str], root: Path = ROOT, listed: str | None = None) -> int:
    """Try the mutants of these names (none: all), and print their verdicts. Return the exit status."""
    mutants = read(LIST.read_text() if listed is None else listed)
    unknown = set(names) - {mutant.name for mutant in mutants}
    if unknown:
        print(f"no mutant is called {', '.join(sorted(unknown))}")
        return 1
    wanted = [mutant for mutant in mutants if not names or mutant.name in names]
    killed = 0
    for mutant, said in verdicts(root, wanted):
        print(f"{mutant.name:16} {said:8} {mutant.what}", flush=True)
        killed += said == "killed"
    print(f"{killed} of {len(wanted)} killed")
    return int(killed < len(wanted))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
