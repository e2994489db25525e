"""The nodes' directories of a run: each on a disk of its own during the run, plain directories afterwards."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path

from chaos.live.faults.loop_disk import LoopDisk, missing


class NodeDisks:
    """Gives each of these nodes a disk of its own below `directory`, if the machine can have such disks. Use as `async
    with`, around the cluster.

    A node's data directory is then a link into its disk, so that the file that fills a full disk lies beside it. At the
    end the data is copied out. Directory and content then look as if there had been no other disk.
    """

    def __init__(self, directory: Path, ids: Sequence[str], lacking: str = "") -> None:
        """`lacking`: the reason why this machine can have no such disks, "" if none is known yet."""
        self._directory, self._ids = directory, list(ids)
        self.lacking = lacking or missing()
        self.loops: dict[str, LoopDisk] = {}

    async def __aenter__(self) -> NodeDisks:
        if not self.lacking:
            try:
                await asyncio.to_thread(self._make)
            except (RuntimeError, OSError) as error:
                await asyncio.to_thread(self._give_up)
                self.lacking = str(error)
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.to_thread(self._settle)

    def _make(self) -> None:
        for node_id in self._ids:
            folder = self._directory / node_id
            self.loops[node_id] = LoopDisk(folder / "disk.img", folder / "disk")
            self.loops[node_id].make()
            (folder / "disk" / "data").mkdir()
            (folder / "data").symlink_to("disk/data")

    def _give_up(self) -> None:
        for loop in self.loops.values():
            loop.remove()
            shutil.rmtree(loop.mounted_at.parent)
        self.loops.clear()

    def _settle(self) -> None:
        for loop in self.loops.values():
            folder = loop.mounted_at.parent
            copy_out(loop, folder / "data.out")
            (folder / "data").unlink()
            (folder / "data.out").rename(folder / "data")
            loop.remove()
            loop.mounted_at.rmdir()


def copy_out(loop: LoopDisk, target: Path) -> None:
    """Copy the node's data from its disk to `target`. A run that failed may have left the disk without power. Then give
    it power first, so that the data can be read."""
    source = loop.mounted_at / "data"
    try:
        shutil.copytree(source, target)
    except OSError:
        shutil.rmtree(target, ignore_errors=True)
        loop.power_on()
        shutil.copytree(source, target)
