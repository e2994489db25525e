"""The common part of ack, nack and extend: receipts in, one result per receipt out.

The route never answers 409: each receipt has its own result. A script wants one exit code. So if one receipt did not
succeed (`stale`, `invalid`, or without a result), the command shows all results and ends with CONFLICT.
"""

import sys
from collections.abc import Sequence
from urllib.parse import quote

import click

from cli.connection import Connection
from cli.failure import Failure
from cli.output import show_json, show_table
from node.runtime.exit_code import ExitCode


def read_receipts(arguments: Sequence[str]) -> list[str]:
    """Return the given receipts. "-" among them is replaced by those on stdin, one a line."""
    found: list[str] = []
    for argument in arguments:
        if argument == "-":
            found += [line.strip() for line in sys.stdin if line.strip()]
        else:
            found.append(argument)
    if not found:
        raise click.UsageError("no receipt given")
    return found


def settle(connection: Connection, topic: str, verb: str, document: dict[str, object]) -> list[dict[str, object]]:
    """Send the receipts of `document` to the topic's `verb` route. Return the results."""
    answer = connection.call("POST", f"/v1/topics/{quote(topic, safe='')}/{verb}", document)
    results = answer.document.get("results", [])
    assert isinstance(results, list)
    return results


def refuse_left(results: Sequence[dict[str, object]], wanted: str, count: int) -> None:
    """Raises Failure (CONFLICT) unless all `count` receipts have the result `wanted`."""
    left = [result for result in results if result.get("result") != wanted]
    if left or len(results) != count:
        missing = "an answer is missing"
        detail = "; ".join(f"{result.get('receipt')}: {result.get('result')}" for result in left) or missing
        raise Failure(ExitCode.CONFLICT, f"{count - len(results) + len(left)} of {count} not {wanted}: {detail}")


def run(
    url: str, timeout: float, output: str, topic: str, verb: str, wanted: str, receipts: Sequence[str], **fields: object
) -> None:
    """Carry out ack, nack or extend: send the receipts and show their results. Raises Failure (CONFLICT) unless all are
    `wanted`."""
    given = read_receipts(receipts)
    document = {"receipts": given} | {name: value for name, value in fields.items() if value is not None}
    results = settle(Connection(url, timeout), topic, verb, document)
    if output == "json":
        show_json({"results": results})
    else:
        show_table(("result", "receipt"), [(result.get("result"), result.get("receipt")) for result in results])
    refuse_left(results, wanted, len(given))
