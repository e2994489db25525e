"""The build before an upgrade: a commit of this repository, named in `older-commit` beside this file.

Tests run its processes beside those of this build. The file moves forward with each release in CHANGELOG.md. It names
the commit of the release before, which is what users upgrade from.
"""

import os
import subprocess
import sys
from pathlib import Path

from cli.local.local_nodes import python_of

ROOT = Path(__file__).resolve().parents[2]
NAMED = Path(__file__).with_name("older-commit")

#: Prints the path of the module of frames, and its PROTOCOL. Older builds have that module in another folder. The code
#: looks into the package's own folder, because an import by name could find this build's module.
_SAY = (
    "import os, replication; from importlib import import_module; "
    "roomy = os.path.isdir(os.path.join(replication.__path__[0], 'wire')); "
    "f = import_module('replication.wire.frame' if roomy else 'replication.frame'); "
    "print(f.__file__, *f.PROTOCOL)"
)


class NoOlderBuild(Exception):
    """The commit is not in this clone. The text says how to fetch it."""


def older_commit() -> str:
    """Return the full hash of the commit in `older-commit`."""
    return next(line for line in NAMED.read_text(encoding="utf-8").splitlines() if not line.startswith("#")).strip()


def check_out(directory: Path) -> Path:
    """Write the files of that commit into `directory`, which is made. The repository stays as it is. Raises
    NoOlderBuild."""
    commit = older_commit()
    git = ["git", "-C", str(ROOT)]
    if subprocess.run([*git, "cat-file", "-e", f"{commit}^{{commit}}"], capture_output=True, check=False).returncode:
        raise NoOlderBuild(
            f"{ROOT} has no commit {commit}, the build that tests upgrade from (chaos/versions/older-commit). "
            "If this is a shallow clone: git fetch --unshallow. "
            "If it has no history at all: clone the repository with git."
        )
    packed = subprocess.run([*git, "archive", "--format=tar", commit], capture_output=True, check=True).stdout
    directory.mkdir(parents=True)
    subprocess.run(["tar", "-x", "-C", str(directory)], input=packed, check=True)
    said = run(directory, "-c", _SAY).stdout.split()
    if not said or not Path(said[0]).is_relative_to(directory.resolve()):
        raise NoOlderBuild(f"a process for {directory} runs other code: {said}")
    return directory


def run(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `hourwheel WORDS` by the build below `root`. With `-c CODE` run that code instead."""
    command = [*python_of(root), *words]
    if words[0] == "-c":
        code = f"import sys; sys.path.insert(0, sys.argv.pop(1)); {words[1]}"
        command = [sys.executable, "-P", "-c", code, str(root.resolve())]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=60)
