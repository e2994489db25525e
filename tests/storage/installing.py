"""Stores and nodes' directories that take a snapshot in, as far as storage goes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from storage.checkpoint.manifest import parts_of
from storage.checkpoint.pin import Pin, checksum_of
from storage.directory.data_directory import DataDirectory
from storage.directory.snapshot_install import Install, remove_replaced
from storage.directory.verify import digest, verify
from storage.file.disk import Disk
from storage.store import Store
from tests.storage.workload import Entry, H, append, checkpoint, found, replay, settle, topic, turn

FEW = [
    found,
    turn(0),
    append(5_000, 1_000, 9 * H),
    topic("orders"),
    settle(1, (0, 0), (9, 0)),
    append(5_500),
    append(H),
]
"""Three hours: a stop at every operation is many stops."""


@contextmanager
def pinned(directory: Path) -> Iterator[Pin]:
    """The last checkpoint of a directory, pinned and prepared."""
    store = Store.open(directory, disk=Disk())
    pin = store.pin()
    assert pin is not None
    pin.prepare()
    try:
        yield pin
    finally:
        pin.release()
        store.close()


def make(directory: Path, entries: int, checkpoints: tuple[int, ...] = (), which: list[Entry] | None = None) -> Path:
    """A node's directory at this index, with a last checkpoint."""
    DataDirectory.open(directory, "n1", Disk(), bytes(16)).close()
    store = Store.open(directory, disk=Disk())
    replay(store, FEW if which is None else which, checkpoints, upto=entries)
    checkpoint(store, store.applied_index)
    store.close()
    return directory


def fetch(pin: Pin, install: Install, *, together: bool = True) -> int:
    """Ask for all pieces as a follower does; returns the bytes that had to be sent."""
    sent = 0
    for place in install.manifest.places(together=together):
        parts = parts_of(install.manifest.files, place)
        have = install.have(parts)
        data = b"".join([pin.read(*part) for part in parts])
        known = len(have) if data.startswith(have) else 0
        if known < len(data):
            install.put(parts, known, data[known:], checksum_of(data[known:]))
            sent += len(data) - known
    return sent


def journal(install: Install, disk: Disk) -> None:
    """Stands for the journal that goes with the snapshot."""
    disk.make_directory(install.journal)
    fd = disk.open_write(install.journal / "1")
    disk.write(fd, b"placeholder", 0)
    disk.fdatasync(fd)
    disk.close(fd)
    disk.fsync_directory(install.journal)


def committed(directory: Path, pin: Pin, disk: Disk) -> None:
    """The snapshot is one start away from being the directory's state."""
    install = Install(directory, pin.manifest, disk)
    fetch(pin, install)
    install.verify()
    journal(install, disk)
    install.commit()


def take_in(directory: Path, pin: Pin, disk: Disk) -> None:
    """All of it, what the next start does, and what the node does then."""
    committed(directory, pin, disk)
    DataDirectory.open(directory, "n1", disk, bytes(16)).close()
    while remove_replaced(directory, disk):
        pass


def state(directory: Path) -> str:
    """Start, as far as storage goes, and say what is there."""
    DataDirectory.open(directory, "n1", Disk(), bytes(16)).close()
    Store.open(directory, disk=Disk()).close()
    assert verify(directory).sound
    return digest(directory)[0]
