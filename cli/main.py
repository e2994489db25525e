"""`hourwheel`: one command, its subcommands loaded only when called.

A node must not import the client's tables, and a client must not import the server. So each subcommand is a module of
its own, named in `COMMANDS` with the sentence that `--help` shows, and imported when it is run. That keeps
`hourwheel --help` at the cost of click alone.
"""

import importlib
import re
from typing import Final

import click

from cli.failure import Failure
from node.runtime.exit_code import SENTENCES

#: A command's name -> its module, and what `--help` says of it.
COMMANDS: dict[str, tuple[str, str]] = {
    "serve": ("cli.run.serve", "run one node from its config file"),
    "dev": ("cli.run.dev", "run a whole cluster on this machine"),
    "listen": ("cli.run.listen", "receive webhooks on this machine and show them"),
    "schedule": ("cli.message.schedule", "schedule one message"),
    "get": ("cli.message.get", "show a message and its history"),
    "reschedule": ("cli.message.reschedule", "move a message to another due time"),
    "cancel": ("cli.message.cancel", "cancel a message, or many, before their delivery"),
    "pull": ("cli.consume.pull", "take due messages of a topic"),
    "ack": ("cli.consume.ack", "settle pulled messages"),
    "nack": ("cli.consume.nack", "give pulled messages back"),
    "extend": ("cli.consume.extend", "keep pulled messages longer"),
    "topic": ("cli.message.topic", "show and change the settings of topics"),
    "list": ("cli.message.list", "list messages by topic, due time, tag and state"),
    "count": ("cli.message.count", "count messages by topic, due time, tag and state"),
    "histogram": ("cli.message.histogram", "show when messages are due"),
    "wheel": ("cli.message.wheel", "show an hour of the wheel, second by second"),
    "shift": ("cli.operation.shift", "move many messages in time"),
    "release": ("cli.operation.release", "make many messages due now"),
    "resend": ("cli.operation.resend", "deliver again what was delivered"),
    "operation": ("cli.operation.operation", "show, pause and end the changes of many messages"),
    "ledger": ("cli.message.ledger", "say what became of the messages of a window"),
    "dead": ("cli.message.dead", "list the dead messages of a topic"),
    "redrive": ("cli.operation.redrive", "make dead messages due again"),
    "cluster": ("cli.run.cluster", "look at the cluster, move its leadership"),
    "node": ("cli.run.node", "drain one node; lower a term that has run out"),
    "restore": ("cli.data.restore", "make a data directory from a backup"),
    "verify": ("cli.data.verify", "check a data directory, a backup or an export offline"),
    "export": ("cli.data.export", "ship hours and delivery logs, to be reconciled"),
    "reconcile": ("cli.data.reconcile", "say what became of every message, by Spark"),
    "chaos": ("cli.run.chaos", "simulate clusters under faults, and judge them"),
}

#: The characters that Python puts in place of bytes in an argument that are no UTF-8.
_FROM_BYTES: Final = re.compile("[\udc80-\udcff]")


class LazyGroup(click.Group):
    """A group whose commands are modules, each with a click command named `command`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order a newcomer needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports the subcommand's module; None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        module, _ = COMMANDS[cmd_name]
        command = importlib.import_module(module).command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Refuse an unknown name with the names that are near it."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as unknown:
            raise click.NoSuchCommand(unknown.command_name, possibilities=COMMANDS, ctx=ctx) from None

    def invoke(self, ctx: click.Context) -> None:
        """Runs the subcommand; a failure is shown and becomes the exit code."""
        try:
            super().invoke(ctx)
        except Failure as failure:
            failure.show()
            ctx.exit(int(failure.code))
        except UnicodeEncodeError as error:
            if not _FROM_BYTES.search(error.object):
                raise
            raise click.UsageError("an argument is not valid UTF-8; give such bytes as --file") from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists commands and exit codes without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, sentence) for name, (_, sentence) in COMMANDS.items()])
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(int(code)), sentence) for code, sentence in SENTENCES.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(package_name="hourwheel")
def main() -> None:
    """Hourwheel: deliver this at that time, replicated. `hourwheel COMMAND --help` says more."""


if __name__ == "__main__":
    main()
