"""`hourwheel verify DIR`: every checksum of a stopped node's data directory; with `--digest` one hash to compare nodes."""

from pathlib import Path

import click

from cli.exit_code import ExitCode
from cli.failure import Failure
from cli.output import output_option, show_fields, show_json


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--digest", "only_digest", is_flag=True, help="one hash of the replicated content, at its applied index")
@output_option
def command(directory: Path, only_digest: bool, output: str) -> None:
    """Checks the data directory DIR of a node that does not run; exit 11 when anything in it is damaged."""
    from storage.data_directory import DirectoryRefused
    from storage.disk import DiskFailed
    from storage.format import Corrupt, FormatRefused
    from storage.verify import digest, verify

    try:
        if only_digest:
            value, applied_index = digest(directory)
            document: dict[str, object] = {"digest": value, "applied_index": applied_index}
        else:
            report = verify(directory)
            document = {"faults": [str(fault) for fault in report.faults]}
    except (DirectoryRefused, FormatRefused, Corrupt, DiskFailed, FileNotFoundError) as error:
        raise Failure(ExitCode.DATA, f"{directory}: {error}") from None
    if output == "json":
        show_json(document)
    else:
        show_fields(document.items())
