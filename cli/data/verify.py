"""`hourwheel verify DIR`: every checksum of a stopped node's data directory, a backup or an export; `--digest`: one
hash to compare nodes by.

The command locks a data directory while it reads it. So no node can start on it meanwhile. The directory of a running
node is refused and not called damaged.
"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.failure import Failure
from cli.output import output_option, show_fields, show_json
from node.runtime.exit_code import ExitCode

if TYPE_CHECKING:
    from storage.directory.verify import Report


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--digest", "only_digest", is_flag=True, help="one hash of the replicated content, at its applied index")
@output_option
def command(directory: Path, only_digest: bool, output: str) -> None:
    """Checks DIR, the data directory (`data_dir`) of a node that does not run, a backup or an export; exit 11 when
    anything in it is damaged.
    """
    from storage.directory.backup import is_backup
    from storage.directory.data_directory import DataDirectory, DirectoryRefused
    from storage.export.manifest import is_export
    from storage.file.disk import Disk, DiskFailed
    from storage.format.rows import Corrupt, FormatRefused

    if not directory.is_dir():
        raise Failure(ExitCode.DATA, f"{directory} is not a directory")
    if not (directory / "LOCK").exists() and (directory / "data" / "LOCK").exists():
        raise Failure(ExitCode.DATA, f"{directory} is not a data directory, but {directory / 'data'} is one")
    try:
        if is_export(directory, Disk()):
            if only_digest:
                raise click.UsageError("an export has no digest: it is no whole copy of a node")
            document = _verify_export(directory, output)
        elif is_backup(directory, Disk()):
            document = _digest(directory) if only_digest else _verify_backup(directory, output)
        else:
            held = DataDirectory.inspect(directory, Disk())
            try:
                document = _digest(directory) if only_digest else _verify(directory, output)
            finally:
                held.close()
    except (DirectoryRefused, FormatRefused, Corrupt, DiskFailed, FileNotFoundError) as error:
        raise Failure(ExitCode.DATA, str(error)) from None
    if output == "json":
        show_json(document)
    else:
        show_fields(document.items())


def _digest(directory: Path) -> dict[str, object]:
    from storage.directory.verify import digest

    value, applied_index = digest(directory)
    return {"digest": value, "applied_index": applied_index}


def _verify(directory: Path, output: str) -> dict[str, object]:
    """The report of a data directory."""
    from cli.data.verify_journal import check_journal
    from storage.directory.verify import verify

    report = verify(directory)
    checked = check_journal(directory / "journal")
    report.faults += checked.faults
    report.notes += checked.notes
    report.bytes += checked.bytes
    return _shown(directory, report, output)


def _verify_backup(directory: Path, output: str) -> dict[str, object]:
    """The report of a backup."""
    from storage.directory.backup import verify_backup

    return _shown(directory, verify_backup(directory), output)


def _verify_export(directory: Path, output: str) -> dict[str, object]:
    """The report of an export."""
    from storage.export.verify import verify_export

    return _shown(directory, verify_export(directory), output)


def _shown(directory: Path, report: "Report", output: str) -> dict[str, object]:
    """Return the report of a directory that is sound. Raises Failure with all faults of one that is damaged."""
    document = asdict(report)
    if not report.sound:
        if output == "json":
            raise Failure(ExitCode.DATA, "damaged", document)
        raise Failure(ExitCode.DATA, "\n".join([f"{directory} is damaged:", *report.faults, *report.notes]))
    return {name: value for name, value in document.items() if name != "faults"} | {"sound": True}
