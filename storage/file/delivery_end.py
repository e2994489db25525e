"""The end of a term whose leader was killed, written by its node when it is back.

The records of a delivery log are written and not synced. A process that is killed loses none of them; a machine that
loses power loses the newest, and nobody sees how many. So a term without a record of its end may have handed over more
than is told. A node that comes back in the same run of the machine's kernel knows better: it makes durable what that
term wrote, and then writes its end.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from storage.file.delivery_file import DeliveryFile, DeliveryWriter, delivery_files
from storage.file.disk import Disk
from storage.format.rows import HEADER_SIZE, Corrupt, FileHeader, FormatRefused, join_rows, take_rows
from storage.record.delivery_record import DELIVERY, GOES_ON, KILLED, TERM_BEGUN, TERM_ENDED, Deliveries, sound

_SIZE = DELIVERY.itemsize


def end_killed_term(directory: Path, disk: Disk, boot: int) -> bool:
    """Write the end of the newest term of a log, at its last record, if it has none and was begun in this `boot`.

    Returns whether it did. Raises DiskFailed.
    """
    files: list[DeliveryFile] = []
    marked = last = np.zeros(0, DELIVERY)
    cluster_id = b""
    for file in reversed(delivery_files(directory, disk)):
        files.append(file)
        cluster_id, edges = _look(directory / file.name, disk)
        if len(edges) and edges["kind"][-1] == TERM_ENDED:
            return False  # what is behind are ends of its hand-overs, heard of later
        last = last if len(last) else edges[-1:]
        head = edges[:1]
        if len(head) and head["kind"][0] in (TERM_BEGUN, GOES_ON):
            marked = marked if len(marked) else head
        if len(head) and head["kind"][0] == TERM_BEGUN:
            break  # or it went by age, and a later file of the term has the mark
    if not len(marked) or int(marked["random"][0]) != boot:
        return False
    for file in files:
        _sync(directory / file.name, disk)
    disk.fsync_directory(directory)
    ended = marked.copy()
    ended["at_ms"], ended["kind"], ended["code"] = last["at_ms"], TERM_ENDED, KILLED
    ended["home"] = ended["random"] = ended["took_ms"] = 0
    writer = DeliveryWriter(directory, disk, group=int(ended["group"][0]), cluster_id=cluster_id)
    writer.append(ended, int(ended["at_ms"][0]))
    writer.close()
    return True


def _look(path: Path, disk: Disk) -> tuple[bytes, Deliveries]:
    """The cluster of a file, and its first and last record, those of them that are as written."""
    fd = disk.open_read(path)
    try:
        try:
            header = FileHeader.decode(disk.read(fd, HEADER_SIZE, 0), path.name)
        except (Corrupt, FormatRefused):  # the process was killed as it began the file
            return b"", np.zeros(0, DELIVERY)
        count = (disk.size(fd) - HEADER_SIZE) // _SIZE
        places = (0, count - 1) if count else ()
        parts = [np.frombuffer(disk.read(fd, _SIZE, HEADER_SIZE + row * _SIZE), DELIVERY) for row in places]
    finally:
        disk.close(fd)
    rows = join_rows(parts, DELIVERY)
    return header.cluster_id, take_rows(rows, np.flatnonzero(sound(rows)))


def _sync(path: Path, disk: Disk) -> None:
    fd = disk.open_write(path)
    try:
        disk.fdatasync(fd)
    finally:
        disk.close(fd)
