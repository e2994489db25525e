"""Makes the disk of one node slow, failing once, or without space, by a library preloaded into the node's process. The
library also changes the kernel's boot id for its node, because a machine that lost power was started anew.

strace can do some of this, but it slows every system call. A slow loop device needs root. A small library works
wherever gcc does, and can be changed while the node runs. The control file of a node outlives its process, so settings
still hold after a restart.
"""

import mmap
import struct
import uuid
from pathlib import Path
from typing import Final, Literal

from chaos.cluster.preload import build

SOURCE: Final = Path(__file__).with_name("faulty_disk.c")
CONTROL: Final = struct.Struct("<qqqqq")  # delay_ns, free_bytes, write_errno, sync_errno, failed
SOUND: Final = CONTROL.pack(0, -1, 0, 0, 0)
_DELAY_AT, _FREE_AT, _FAILED_AT = 0, 8, 32
_ERRNO_AT: Final = {"write": 16, "sync": 24}
Operation = Literal["write", "sync"]


class FaultyDisk:
    """The library, built into `directory`, and one control file per node. Every node's disk is sound at first."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._library = directory / "faulty_disk.so"

    def build(self) -> None:
        """Compile the library. Raises RuntimeError without gcc or when gcc refuses."""
        build(SOURCE, self._library)

    def environment(self, node_id: str) -> dict[str, str]:
        """Return the environment variables with which a node's process loads the library."""
        boot = self._boot(node_id)
        if not boot.exists():
            self.reboot(node_id)
        return {"LD_PRELOAD": str(self._library), "CHAOS_DISK": str(self._control(node_id)), "CHAOS_BOOT": str(boot)}

    def reboot(self, node_id: str) -> None:
        """Give the node another boot id at its next start, as if its machine had been started anew
        (node/runtime/boot.py)."""
        self._boot(node_id).write_text(f"{uuid.uuid4()}\n")

    def slow(self, node_id: str, delay_ms: int) -> None:
        """Make each sync of the node (fdatasync, fsync, syncfs) take `delay_ms` longer. 0 takes that back."""
        self._set(node_id, _DELAY_AT, delay_ms * 1_000_000)

    def full(self, node_id: str, free_bytes: int | None) -> None:
        """Tell the node that this many bytes of its disk are free. None: the true number."""
        self._set(node_id, _FREE_AT, -1 if free_bytes is None else free_bytes)

    def fail(self, node_id: str, operation: Operation, number: int) -> None:
        """Let the node's next positional write, or sync, fail with this errno and do nothing. 0 takes that back."""
        self._set(node_id, _ERRNO_AT[operation], number)

    def failed_count(self, node_id: str) -> int:
        """How many of the node's calls the library made fail so far."""
        return int(struct.unpack_from("<q", self._control(node_id).read_bytes(), _FAILED_AT)[0])

    def mend(self, node_id: str) -> None:
        """Make the node's disk sound again. `failed_count` stays as it is."""
        self.slow(node_id, 0)
        self.full(node_id, None)
        self.fail(node_id, "write", 0)
        self.fail(node_id, "sync", 0)

    def _set(self, node_id: str, at: int, value: int) -> None:
        with self._control(node_id).open("r+b") as file, mmap.mmap(file.fileno(), CONTROL.size) as control:
            struct.pack_into("<q", control, at, value)

    def _boot(self, node_id: str) -> Path:
        return self._directory / f"{node_id}.boot"

    def _control(self, node_id: str) -> Path:
        control = self._directory / f"{node_id}.disk"
        if not control.exists():
            control.write_bytes(SOUND)
        return control
