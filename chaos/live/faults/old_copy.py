"""An earlier copy of a node's files: takes it, compares it with the files, and puts it back."""

import shutil
from pathlib import Path

from chaos.live.faults import damage


def copy(source: Path, target: Path) -> None:
    """Copy a file, or a directory with its content."""
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copy2(source, target)


def same(source: Path, target: Path) -> bool:
    """True if a file equals its copy. Of a directory only the journal is compared."""
    if source.is_dir():
        held = [{path.name: path.read_bytes() for path in damage.files(root, "journal")} for root in (source, target)]
        return held[0] == held[1]
    return target.exists() and source.read_bytes() == target.read_bytes()


def put_back(source: Path, target: Path) -> None:
    """Restore the target. A disk may be mounted at a directory, so the directory stays and its content goes."""
    if source.is_dir():
        for path in target.iterdir():
            remove(path)
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)


def remove(path: Path) -> None:
    """Remove a file, if it is there, or a directory with its content."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
