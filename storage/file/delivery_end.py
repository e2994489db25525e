"""The end record of a term whose leader was killed. Its node writes it when it is back.

The records of a delivery log are written and not synced. A killed process loses none of them. A host that loses
power loses the newest, and their number is unknown. So a term without an end record may have handed over more than its
log says. A node that comes back within the same boot of the host knows that nothing was lost. It makes that term's
records durable, and then writes the term's end.
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
    """Write the end of a log's newest term if the term has no end and was begun in this `boot`. The end has the time of
    the last record.

    `boot` names the run of the host's kernel. Return True if the end was written. Raises DiskFailed.
    """
    files: list[DeliveryFile] = []
    marked = last = np.zeros(0, DELIVERY)
    cluster_id = b""
    for file in reversed(delivery_files(directory, disk)):
        files.append(file)
        cluster_id, edges = _look(directory / file.name, disk)
        if len(edges) and edges["kind"][-1] == TERM_ENDED:
            return False  # only later ends of its hand-overs are behind it
        last = last if len(last) else edges[-1:]
        head = edges[:1]
        if len(head) and head["kind"][0] in (TERM_BEGUN, GOES_ON):
            marked = marked if len(marked) else head
        if len(head) and head["kind"][0] == TERM_BEGUN:
            break  # else retention removed it, and a later file of the term has the mark
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
    """Return the cluster id in a file's header, and the file's first and last record. A record that is not as written
    is left out."""
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
