"""A disk that takes its time, for one node at a time: a preloaded library that delays fdatasync.

strace can do this too but costs every system call; a slow loop device needs root. A twenty-line library works wherever
gcc does, and its delay can be changed while the node runs.
"""

from pathlib import Path

from chaos.preload import build

SOURCE = Path(__file__).with_name("slow_disk.c")


class SlowDisk:
    """The library, built into `directory`, and one control file per node."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._library = directory / "slow_disk.so"

    def build(self) -> None:
        """Compiles the library. Raises RuntimeError without gcc or when it refuses."""
        build(SOURCE, self._library)

    def environment(self, node_id: str) -> dict[str, str]:
        """What a node's process needs so that its fdatasync can be slowed."""
        return {"LD_PRELOAD": str(self._library), "HOURWHEEL_SLOW_DISK": str(self._control(node_id))}

    def set(self, node_id: str, delay_ms: int) -> None:
        """From its next fdatasync on the node waits so long; 0 lifts it."""
        self._control(node_id).write_text(str(delay_ms))

    def _control(self, node_id: str) -> Path:
        return self._directory / f"{node_id}.fdatasync_ms"
