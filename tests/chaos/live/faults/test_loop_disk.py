"""A disk whose power is cut: what was synced stays, what was not is gone."""

import errno
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.live.faults.loop_disk import LoopDisk, missing, own_mounts

pytestmark = pytest.mark.skipif(bool(missing()), reason=f"this machine lacks {missing()}")
SIZE_BYTES = 64 << 20


def _child(call: Callable[[Path], None], directory: Path) -> None:
    own_mounts()
    call(directory)


def apart(call: Callable[[Path], None], directory: Path) -> None:
    """Runs it in a process whose mounts end with it."""
    process = multiprocessing.get_context("fork").Process(target=_child, args=(call, directory))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    assert str(directory) not in Path("/proc/mounts").read_text()


def write(path: Path, text: bytes, *, sync: bool) -> None:
    """A file, made durable or not."""
    with path.open("wb") as file:
        file.write(text)
        file.flush()
        if sync:
            os.fsync(file.fileno())
    if sync:
        fd = os.open(path.parent, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)


def _power(directory: Path) -> None:
    disk = LoopDisk(directory / "image", directory / "disk", SIZE_BYTES)
    disk.make()
    write(disk.mounted_at / "synced", b"stays", sync=True)
    write(disk.mounted_at / "written", b"goes", sync=False)
    disk.cut_power()
    with pytest.raises(OSError, match="Input/output") as refused:
        write(disk.mounted_at / "later", b"never", sync=False)
    assert refused.value.errno == errno.EIO
    disk.power_on()
    assert (disk.mounted_at / "synced").read_bytes() == b"stays"
    assert not (disk.mounted_at / "written").exists()
    assert not (disk.mounted_at / "later").exists()
    disk.remove()
    assert not (directory / "image").exists()


def test_what_was_not_synced_is_gone(tmp_path: Path) -> None:
    """A synced file survives; one that was only written, and a write after the cut, do not."""
    apart(_power, tmp_path)


def _torn(directory: Path) -> None:
    disk = LoopDisk(directory / "image", directory / "disk", SIZE_BYTES)
    disk.make()
    path = disk.mounted_at / "file"
    write(path, b"a" * 5_000, sync=True)
    with path.open("ab") as file:
        file.write(b"b" * 20_000)
    disk.cut_power("torn")
    disk.power_on()
    kept = path.read_bytes()
    assert kept[:5_000] == b"a" * 5_000
    assert len(kept) < 25_000 or kept[5_000:].count(b"b") < 20_000
    disk.remove()


def test_torn_keeps_what_was_synced(tmp_path: Path) -> None:
    """Also with the file system's own journal written out, the bytes that were not synced are not there."""
    apart(_torn, tmp_path)


def _full(directory: Path) -> None:
    disk = LoopDisk(directory / "image", directory / "disk", SIZE_BYTES)
    disk.make()
    before = os.statvfs(disk.mounted_at)
    disk.fill(8 << 20)
    full = os.statvfs(disk.mounted_at)
    assert abs(full.f_bavail * full.f_frsize - (8 << 20)) < 1 << 20
    disk.fill(8 << 20)
    with pytest.raises(OSError, match="No space") as refused:
        write(disk.mounted_at / "file", bytes(20 << 20), sync=True)
    assert refused.value.errno == errno.ENOSPC
    (disk.mounted_at / "file").unlink()
    disk.empty()
    after = os.statvfs(disk.mounted_at)
    assert abs(before.f_bavail - after.f_bavail) * after.f_frsize < 1 << 20
    disk.remove()


def test_full_and_empty_again(tmp_path: Path) -> None:
    """So much is left as was asked for, really; then all is free again."""
    apart(_full, tmp_path)
