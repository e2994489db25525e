"""A disk of its own for one node: an ext4 image behind a loop device. Its power can be cut, and it can be full.

kill -9 loses nothing that was written: the kernel still has it. To lose what a power cut takes, the file system has to
go away under the node. EXT4_IOC_SHUTDOWN ends it at once, with or without the content of its journal. The next mount
finds what had reached the image. Needs root and loop devices. `missing` says what is not there.

The mounts are made in a mount namespace of this process (`own_mounts`), which its children share. When the last of
these processes has ended, in any way, the kernel unmounts them, and no loop device stays behind.
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
#: lost: nothing more reaches the disk. torn: the file system's own journal does, the content of the files does not.
#: Names and lengths stay without their bytes.
_FLAGS: Final[dict[Unsynced, int]] = {"torn": 1, "lost": 2}
CLONE_NEWNS: Final = 0x00020000
#: More than a node's reserve (1 GiB) and all its writes in a long run. The file is sparse: it takes only the used
#: space.
SIZE_BYTES: Final = 6 << 30
UNMOUNT_S: Final = 10.0


def missing() -> str:
    """The tool or right that this machine lacks to make a LoopDisk. Empty when it has all."""
    if os.geteuid() != 0:
        return "root (to mount a file system)"
    if not Path("/dev/loop-control").exists():
        return "loop devices (/dev/loop-control)"
    return next(
        (f"{tool} (package e2fsprogs or mount)" for tool in ("mkfs.ext4", "mount") if not shutil.which(tool)), ""
    )


def own_mounts() -> None:
    """Give this process and its later children mounts that no other process sees. They end with these processes. Call
    it before any thread is started. Raises OSError without root."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "unshare(CLONE_NEWNS)")
    _run("mount", "--make-rprivate", "/")


class LoopDisk:
    """One disk, its image in `image`, mounted at `mounted_at`. All methods block the calling thread. A disk takes one
    call at a time."""

    def __init__(self, image: Path, mounted_at: Path, size_bytes: int = SIZE_BYTES) -> None:
        self._image, self.mounted_at, self._size = image, mounted_at, size_bytes
        self._ballast = mounted_at / "ballast"
        self._mounted = False

    def make(self) -> None:
        """Create the image and mount it. Raises RuntimeError with the tool's message."""
        self.mounted_at.mkdir(parents=True, exist_ok=True)
        with self._image.open("xb") as file:
            file.truncate(self._size)
        _run("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1", str(self._image))
        self._mount()

    def cut_power(self, unsynced: Unsynced = "lost") -> None:
        """Cut the power: from now on every write and sync fails, and unsynced data is gone. End every process that has
        files open before `power_on`."""
        fd = os.open(self.mounted_at, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(fd, SHUTDOWN, struct.pack("I", _FLAGS[unsynced]))
        finally:
            os.close(fd)

    def power_on(self) -> None:
        """Mount the content of the image again. Raises RuntimeError when a process still uses the old mount."""
        if self._mounted:
            self._unmount()
        self._mount()

    def fill(self, left_bytes: int) -> None:
        """Take space until only `left_bytes` are free. Do nothing if less is free."""
        found = os.statvfs(self.mounted_at)
        taken = found.f_bavail * found.f_frsize - left_bytes
        if taken <= 0:
            return
        with self._ballast.open("ab") as file:
            os.posix_fallocate(file.fileno(), 0, taken)

    def empty(self) -> None:
        """Free the space that `fill` took."""
        self._ballast.unlink(missing_ok=True)

    def remove(self) -> None:
        """Unmount and delete the image. Do nothing if there is none."""
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
