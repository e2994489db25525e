"""SILENCE in a data directory: the longest time for which this node may still owe a leader its silence after a restart.

It is one JSON line {"format","silence_ms","checksum"}. A rename replaces the file, so after a crash it is the old one
or the new one. A directory without it is new, or was made by an older build. replication/election/silence.py says why
the time is kept.
"""

import json
from pathlib import Path
from typing import Final

import google_crc32c

from storage.file.disk import Disk
from storage.format.rows import Corrupt, FormatRefused

SILENCE: Final = "SILENCE"
FORMAT: Final = 1
_NEW: Final = "SILENCE.new"
_LINE_MAX: Final = 4096


def read_silence(directory: Path, disk: Disk) -> int:
    """Read for how many milliseconds this node may still owe its silence. 0 if the file is missing. Raises Corrupt,
    FormatRefused."""
    path = directory / SILENCE
    try:
        fd = disk.open_read(path)
    except FileNotFoundError:
        return 0
    try:
        line = disk.read(fd, _LINE_MAX, 0)
    finally:
        disk.close(fd)
    try:
        fields = json.loads(line)
        found = fields.pop("checksum", None)
    except (ValueError, AttributeError) as error:
        raise Corrupt(str(path), 0, "content", f"{line[:60]!r}", "the JSON line a node wrote") from error
    if found != _checksum(fields):
        raise Corrupt(str(path), 0, "checksum", found, _checksum(fields))
    if fields.get("format") != FORMAT:
        raise FormatRefused(str(path), "format", fields.get("format"), FORMAT)
    return int(fields["silence_ms"])


def write_silence(directory: Path, milliseconds: int, disk: Disk) -> None:
    """Replace SILENCE by one with this many milliseconds. It is durable at return. Raises DiskFailed."""
    fields: dict[str, object] = {"format": FORMAT, "silence_ms": milliseconds}
    fd = disk.open_write(directory / _NEW)
    try:
        disk.truncate(fd, 0)
        disk.write(fd, _line({**fields, "checksum": _checksum(fields)}), 0)
        disk.fdatasync(fd)
    finally:
        disk.close(fd)
    disk.rename(directory / _NEW, directory / SILENCE)
    disk.fsync_directory(directory)


def _checksum(fields: dict[str, object]) -> str:
    return f"{google_crc32c.value(_line(fields)):08x}"


def _line(fields: dict[str, object]) -> bytes:
    return json.dumps(fields, sort_keys=True).encode() + b"\n"
