"""`hourwheel serve`: one node, until SIGTERM.

An operator mends what stops a node from starting: the config file, an address, the data directory. So each cause has
its own exit code and one clear sentence, and no traceback. A defect still shows its traceback.
"""

import asyncio
import errno
import faulthandler
import os
from pathlib import Path

import click

from cli.failure import Failure
from cli.run.parent import end_with
from cli.run.tolerant_output import bear_lost_output
from node.runtime.exit_code import ExitCode

_ADDRESS_ERRORS = {errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES}


@click.command()
@click.option("--config", "config_path", required=True, type=click.Path(path_type=Path), help="the node's TOML file")
@click.option("--parent", type=int, hidden=True, help="end when this process, the parent, is gone")
def command(config_path: Path, parent: int | None) -> None:
    """Runs one node until SIGTERM or SIGINT."""
    bear_lost_output()
    faulthandler.enable(file=2)  # a signal of the machine (a mapped file cut short, a bad page) says where it struck
    if parent is not None:
        end_with(parent)
    from cli.run.stray_variable import strangers
    from node.runtime.config import ConfigError, load_config

    for sentence in strangers(os.environ):
        click.echo(f"hourwheel: {sentence}", err=True)
    try:
        config = load_config(config_path)
    except ConfigError as error:
        raise Failure(ExitCode.CONFIG, str(error)) from None
    from api.http.listening import ListenFailed
    from node.cluster.members import NodeRemoved
    from node.process import run
    from replication.command.entry import UnknownCommand
    from replication.group import StartRefused
    from storage.directory.data_directory import DirectoryRefused
    from storage.file.disk import DiskFailed
    from storage.format.rows import Corrupt, FormatRefused

    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(run(config))
    except (DirectoryRefused, FormatRefused, Corrupt, DiskFailed, StartRefused) as error:
        where = "" if config.data_dir in str(error) else f"{config.data_dir}: "
        raise Failure(ExitCode.DATA, f"{where}{error}") from error
    except NodeRemoved as error:
        raise Failure(ExitCode.REMOVED, str(error)) from None
    except UnknownCommand as error:
        raise Failure(ExitCode.DATA, f"{config.data_dir}: {error}; use a newer build") from error
    except ListenFailed as error:
        raise Failure(ExitCode.ADDRESS, str(error)) from None
    except OSError as error:  # of Raft: HTTP's is a ListenFailed
        if error.errno not in _ADDRESS_ERRORS:
            raise
        hint = "; is another node running there?" if error.errno == errno.EADDRINUSE else ""
        detail = f"cannot listen for Raft on {config.raft.listen}: {error.strerror}{hint}"
        raise Failure(ExitCode.ADDRESS, detail) from None


def loop_factory() -> "type[asyncio.AbstractEventLoop] | None":
    """Return uvloop's event loop. None, for Python's own loop, where uvloop is not installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.Loop
