"""An earlier copy of a node's files: taken, compared with what they are now, and put back."""

import shutil
from pathlib import Path

from chaos.live.faults import damage


def copy(source: Path, target: Path) -> None:
    """A file, or a directory with all that is in it."""
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copy2(source, target)


def same(source: Path, target: Path) -> bool:
    """Whether a file is as its copy; of a directory: whether its journal is."""
    if source.is_dir():
        held = [{path.name: path.read_bytes() for path in damage.files(root, "journal")} for root in (source, target)]
        return held[0] == held[1]
    return target.exists() and source.read_bytes() == target.read_bytes()


def put_back(source: Path, target: Path) -> None:
    """The target is as it was; a directory may be where a disk is mounted, so it stays and what is in it goes."""
    if source.is_dir():
        for path in target.iterdir():
            remove(path)
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)


def remove(path: Path) -> None:
    """A file, if it is there, or a directory with all that is in it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
