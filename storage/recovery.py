"""Opening a store: the files of the hours are brought back to the last checkpoint.

| on disk | what it is | done |
|---|---|---|
| an hour or generation the record does not name | begun after it, or unlinked by it | removed; the journal has it |
| a file longer than the record says | appended after the checkpoint, perhaps torn | cut |
| a file shorter, or missing | durable bytes are gone | Corrupt |
| header, last unit or last settle record not as written | damage | Corrupt |
| damage further inside | found by its checksum when read, and by verify | Corrupt then |

Reading every byte would take minutes at 50 M messages; what is served is checked as it is read.
"""

from pathlib import Path

from storage.checkpoint import CheckpointRecord, HourLengths
from storage.disk import Disk
from storage.format import Corrupt
from storage.hour import Hour, settle_count
from storage.hour_file import HourFiles, directory_name
from storage.stage_write import OpenFiles
from storage.staging import Stage


def recover_hours(
    hours: Path, record: CheckpointRecord | None, disk: Disk, open_files: OpenFiles, stage: Stage
) -> dict[int, Hour]:
    """The hours of the checkpoint, their files cut to it. Raises Corrupt, FormatRefused or DiskFailed."""
    named = record.hours if record else {}
    kept = {directory_name(number, lengths.generation) for number, lengths in named.items()}
    for name in disk.list_directory(hours):
        if name not in kept:
            disk.remove_tree(hours / name)
    recovered: dict[int, Hour] = {}
    for number, lengths in sorted(named.items()):
        files = open_files(number, lengths.generation)
        files.log.cut(lengths.log_len)
        files.index.cut(lengths.index_len)
        files.settle.cut(lengths.settle_len)
        check_lengths(files, lengths)
        files.close()
        recovered[number] = Hour(number, files, stage, lengths)
    return recovered


def check_lengths(files: HourFiles, lengths: HourLengths) -> None:
    """Whether the record's lengths, the last unit and the last settle record tell the same. Raises Corrupt."""
    following = files.index.first + lengths.units
    index_len = files.index.offset(following) if lengths.units else 0
    if lengths.index_len != index_len:
        raise Corrupt("catalog, checkpoint record", 0, f"index of {files.index.name}", lengths.index_len, index_len)
    if lengths.units:
        last = files.index.read_rows(following - 1, 1)[0]
        end = int(last["offset"]) + int(last["size"])
        if end != lengths.log_len:
            raise Corrupt(files.index.name, files.index.offset(following - 1), "end of log", end, lengths.log_len)
    settles = settle_count(lengths)
    if settles:
        files.settle.read_rows(settles - 1, 1)
