"""The question before a change of many messages.

It goes to stderr, so that stdout has only the result, also in a pipe.
"""

import click

from cli.failure import Failure
from node.runtime.exit_code import ExitCode


def confirm(question: str) -> None:
    """Ask the user. Raises Failure unless the answer is yes. Without a terminal or an answer it is no."""
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:
        agreed = False
    if not agreed:
        raise Failure(ExitCode.USAGE, "not confirmed, nothing was changed; --yes does it without asking")
