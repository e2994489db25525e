"""A disk of its own for one node: an ext4 image behind a loop device, whose power can be cut and which can be full.

kill -9 loses nothing that was written: the kernel still has it. What a power cut takes is only seen by a file system
that goes away under the node: EXT4_IOC_SHUTDOWN ends it at once, with or without what its journal holds, and the next
mount finds what had reached the image. Needs root and loop devices; `missing` says what is not there.

The mounts are made in a mount namespace of this process (`own_mounts`), which its children share: whatever becomes of
it, the kernel unmounts them when the last of them has ended, and no loop device stays behind.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
import struct
import subprocess
import time
from pathlib import Path
from typing import Final, Literal

Unsynced = Literal["lost", "torn"]

#: _IOR('X', 125, __u32) of linux/ext4.h, and its flags.
SHUTDOWN: Final = 0x8004587D
#: lost: nothing more reaches the disk. torn: the file system's own journal does, what the files held does not: names
#: and lengths without their bytes.
_FLAGS: Final[dict[Unsynced, int]] = {"torn": 1, "lost": 2}
CLONE_NEWNS: Final = 0x00020000
#: More than a node's reserve (1 GiB) and all it writes in a long run; a sparse file, so that it takes what is used.
SIZE_BYTES: Final = 6 << 30
UNMOUNT_S: Final = 10.0


def missing() -> str:
    """What this machine lacks for such disks; empty when it has all."""
    if os.geteuid() != 0:
        return "root (to mount a file system)"
    if not Path("/dev/loop-control").exists():
        return "loop devices (/dev/loop-control)"
    return next(
        (f"{tool} (package e2fsprogs or mount)" for tool in ("mkfs.ext4", "mount") if not shutil.which(tool)), ""
    )


def own_mounts() -> None:
    """Gives this process, and those it starts from now on, mounts that nobody else sees and that end with them. Call it
    before any thread is started. Raises OSError without root."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "unshare(CLONE_NEWNS)")
    _run("mount", "--make-rprivate", "/")


class LoopDisk:
    """One image in `image`, mounted at `mounted_at`. All calls block; none is made while another of this disk runs."""

    def __init__(self, image: Path, mounted_at: Path, size_bytes: int = SIZE_BYTES) -> None:
        self._image, self.mounted_at, self._size = image, mounted_at, size_bytes
        self._ballast = mounted_at / "ballast"
        self._mounted = False

    def make(self) -> None:
        """Creates the image and mounts it. Raises RuntimeError, with what the tool said."""
        self.mounted_at.mkdir(parents=True, exist_ok=True)
        with self._image.open("xb") as file:
            file.truncate(self._size)
        _run("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1", str(self._image))
        self._mount()

    def cut_power(self, unsynced: Unsynced = "lost") -> None:
        """From now on every write and sync fails, and what was not synced is gone. Whoever has files open has to be
        ended before `power_on`."""
        fd = os.open(self.mounted_at, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(fd, SHUTDOWN, struct.pack("I", _FLAGS[unsynced]))
        finally:
            os.close(fd)

    def power_on(self) -> None:
        """Mounts again what the image holds. Raises RuntimeError when somebody still uses the old mount."""
        if self._mounted:
            self._unmount()
        self._mount()

    def fill(self, left_bytes: int) -> None:
        """Takes room until so much is free; nothing where less is."""
        found = os.statvfs(self.mounted_at)
        taken = found.f_bavail * found.f_frsize - left_bytes
        if taken <= 0:
            return
        with self._ballast.open("ab") as file:
            os.posix_fallocate(file.fileno(), 0, taken)

    def empty(self) -> None:
        """Gives back what `fill` took."""
        self._ballast.unlink(missing_ok=True)

    def remove(self) -> None:
        """Unmounts and deletes the image; fine where there is none."""
        if self._mounted:
            self._unmount()
        self._image.unlink(missing_ok=True)

    def _mount(self) -> None:
        # With `loop` the device is freed by the unmount.
        _run("mount", "-o", "loop,noatime", str(self._image), str(self.mounted_at))
        self._mounted = True

    def _unmount(self) -> None:
        until_s = time.monotonic() + UNMOUNT_S
        while True:
            try:
                _run("umount", str(self.mounted_at))
                break
            except RuntimeError:
                # A killed process gives its files back a moment after it is reaped.
                if time.monotonic() > until_s:
                    raise
                time.sleep(0.05)
        self._mounted = False


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or os.strerror(errno.EIO)}")
