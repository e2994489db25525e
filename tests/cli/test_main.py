"""The command itself: help without loading, lazily loaded subcommands."""

import subprocess
import sys

from click import Context, Group
from click.testing import CliRunner

from cli.main import COMMANDS, main
from node.runtime.exit_code import SENTENCES

HEAVY = ("aiohttp", "numpy", "pysyncobj", "lmdb", "rich", "uvloop", "asyncio", "msgspec")


def test_help_lists_commands_and_exit_codes() -> None:
    """`--help` names every subcommand with its sentence, and the table of exit codes."""
    text = CliRunner().invoke(main, ["--help"]).output
    for name in COMMANDS:
        assert f"\n  {name} " in text
    for code in SENTENCES:
        assert f"\n  {int(code)} " in text


def test_every_subcommand_has_help() -> None:
    """Each name in the table is a module with a command, whose help says what it is for."""
    for name in COMMANDS:
        result = CliRunner().invoke(main, [name, "--help"])
        assert result.exit_code == 0, result.output
        assert len(result.output.splitlines()) > 4


def test_every_word_under_a_subcommand_has_help() -> None:
    """`topic` and `cluster` have words of their own; each shows its own help."""
    for name in COMMANDS:
        group = main.get_command(Context(main), name)
        for word in group.commands if isinstance(group, Group) else ():
            result = CliRunner().invoke(main, [name, word, "--help"])
            assert result.exit_code == 0, result.output
            assert f"{name} {word}" in result.output


def test_near_commands_and_options_are_named() -> None:
    """Whichever level the wrong word stands on."""
    for args, meant in (
        (["topik"], "topic"),
        (["topic", "lst"], "list"),
        (["cluster", "stats"], "status"),
        (["schedule", "t", "1", "--dely", "5s"], "--delay"),
    ):
        result = CliRunner().invoke(main, args)
        assert result.exit_code == 2
        assert f"'{meant}'" in result.output


def test_help_and_client_commands_import_nothing_heavy() -> None:
    """A client's start does not pay for the server: neither help nor `get` loads what only a node needs."""
    script = (
        "import sys; from cli.main import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    for args in (
        ["--help"],
        ["get", "0A", "--url", "http://127.0.0.1:9"],
        ["redrive", "--help"],
        ["topic", "put", "--help"],
    ):
        done = subprocess.run([sys.executable, "-c", script, *args], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == "[]"


def test_no_help_imports_a_server_or_tables() -> None:
    """Whatever the command: aiohttp and rich come with its work, not with its help."""
    for name, (module, _) in COMMANDS.items():
        script = f"import sys, {module}; print([name for name in ('aiohttp', 'rich', 'numpy') if name in sys.modules])"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        assert done.stdout == "[]\n", name
