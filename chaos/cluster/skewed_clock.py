"""A wall clock of its own for each node: steps and drift, set while the node runs. The monotonic clock is untouched.

The library (skewed_clock.c) maps a control file of 32 bytes per node. This module writes it.
"""

import mmap
import struct
import time
from pathlib import Path

from chaos.cluster.preload import build

SOURCE = Path(__file__).with_name("skewed_clock.c")
CONTROL = struct.Struct("<qqqq")  # sequence, offset_ns, drift_ppb, since_ns


class SkewedClock:
    """A library that moves a node's wall clock, built into `directory`, and one control file per node. Offsets are
    against the machine's clock."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._library = directory / "skewed_clock.so"
        self._sequence: dict[str, int] = {}

    def build(self) -> None:
        """Compile the library. Raises RuntimeError without gcc or when gcc refuses."""
        build(SOURCE, self._library)

    def environment(self, node_id: str) -> dict[str, str]:
        """Return the environment variables with which a node's process loads the library. The clock stays as it was set
        before."""
        control = self._control(node_id)
        if not control.exists():
            control.write_bytes(CONTROL.pack(0, 0, 0, 0))
        return {"LD_PRELOAD": str(self._library), "CHAOS_CLOCK": str(control)}

    def set(self, node_id: str, offset_ms: float, drift_ppm: float = 0.0) -> None:
        """Set the node's wall clock `offset_ms` ahead. From now on it gains `drift_ppm` millionths of the time that
        passes."""
        self.environment(node_id)
        sequence = self._sequence.get(node_id, 0)
        self._sequence[node_id] = sequence + 2
        values = (int(offset_ms * 1e6), int(drift_ppm * 1e3), time.monotonic_ns())
        with self._control(node_id).open("r+b") as file, mmap.mmap(file.fileno(), CONTROL.size) as control:
            struct.pack_into("<q", control, 0, sequence + 1)
            struct.pack_into("<qqq", control, 8, *values)
            struct.pack_into("<q", control, 0, sequence + 2)

    def _control(self, node_id: str) -> Path:
        return self._directory / f"{node_id}.clock"
