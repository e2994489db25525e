"""`hourwheel export --to DIR`: copies from data directories what the reconciliation needs, while their nodes run or
not.

It reads directories of this machine and asks no node. The bytes that a node's last checkpoint covers do not change any
more. So they can be read while the node appends to the same files. A node whose config has `[export] to` exports by
itself. This command is for all other cases.
"""

import time
from pathlib import Path

import click

from cli.failure import Failure
from cli.output import output_option, show_fields, show_json
from node.runtime.exit_code import ExitCode


@click.command()
@click.option(
    "--to", required=True, type=click.Path(path_type=Path), help="made if it is not there; continued if it is"
)
@click.option(
    "--data",
    "directories",
    required=True,
    multiple=True,
    envvar="HOURWHEEL_DATA_DIR",
    show_envvar=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="a node's `data_dir`, or a directory that holds those of several; may be given again",
)
@output_option
def command(to: Path, directories: tuple[Path, ...], output: str) -> None:
    """Ships hours (without bodies), terms and delivery logs to a directory by day and node. Ships only what is new
    since the run before.

    You may stop it and run it again. Exit 11 for a data directory, or an export, that is damaged.
    """
    from storage.directory.data_directory import DirectoryRefused
    from storage.export.export import Export, Exported, ExportRefused
    from storage.export.source import read_source
    from storage.file.disk import Disk, DiskFailed
    from storage.format.rows import Corrupt, FormatRefused

    done: dict[Path, Exported] = {}
    nodes: set[str] = set()
    faults: list[str] = []
    for directory in [found for given in directories for found in _within(given)]:
        try:
            source = read_source(directory, Disk(), int(time.time() * 1000))
            done[directory] = Export(source, to.absolute(), Disk()).run()
            nodes.add(source.word.node)
        except (DirectoryRefused, ExportRefused, Corrupt, FormatRefused, DiskFailed) as error:
            faults.append(f"{directory}: {error}" if str(directory) not in str(error) else str(error))
    figures = ("hours", "units", "settles", "deliveries", "bytes")
    written = {name: sum(getattr(each, name) for each in done.values()) for name in figures}
    document = {"to": str(to), "nodes": sorted(nodes), **written}
    if faults:
        raise Failure(ExitCode.DATA, "\n".join(faults), {**document, "faults": faults})
    if output == "json":
        show_json(document)
    else:
        show_fields(document.items())


def _within(directory: Path) -> list[Path]:
    """Return the data directories that DIR means: DIR itself, or those of the nodes that `hourwheel dev` keeps below
    it."""
    if (directory / "LOCK").exists():
        return [directory]
    found = sorted(lock.parent for pattern in ("*/LOCK", "*/data/LOCK") for lock in directory.glob(pattern))
    return found or [directory]
