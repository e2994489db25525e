"""How the command fails: one exception that carries its exit code and, with `-o json`, the whole problem document.

Errors go to stderr in both forms, so that stdout holds nothing but results and can be piped on.
"""

import json
from collections.abc import Sequence
from typing import Any

import click

from hourwheel.core.errors import HourwheelError, OutcomeUnknown, Unreachable
from node.runtime.exit_code import ExitCode, of_status


class Failure(Exception):
    """Ends the command with `code`; shown as one sentence, or as `document` in JSON output."""

    def __init__(self, code: ExitCode, message: str, document: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.document = document if document is not None else {"code": code.name.lower(), "detail": message}
        self.as_json = False

    def show(self) -> None:
        """Writes the failure to stderr: a sentence for people, one JSON line for programs."""
        text = json.dumps(self.document, ensure_ascii=False) if self.as_json else f"hourwheel: {self.message}"
        click.echo(text, err=True)


def of_problem(status: int, document: dict[str, Any]) -> Failure:
    """The failure for an `application/problem+json` answer: code and detail, then one line per field with its limit."""
    code = document.get("code") or "no-code"
    lines = [f"{code} (HTTP {status}): {document.get('detail') or document.get('title') or 'no detail given'}"]
    for error in document.get("errors") or []:
        pointer, detail = error.get("pointer"), error.get("detail") or "refused"
        line = f"{pointer}: {detail}" if pointer else detail
        if not lines[0].endswith(line):  # with one error the detail is that error
            lines.append(f"  {line}")
    for name in ("holder", "handed_over", "leased_until", "retry_after"):
        if document.get(name) is not None:
            lines.append(f"  {name}: {document[name]}")
    if document.get("request_id"):
        lines.append(f"  request id: {document['request_id']}")
    return Failure(of_status(status), "\n".join(lines), document)


def when_unknown(method: str, path: str, *, keyed: bool) -> str:
    """Return the advice to a user whose request was sent and got no answer. "" for a GET, which changes nothing."""
    if method == "GET":
        return ""
    if keyed:
        return "it may or may not have happened, send again with the same key"
    if method == "POST" and path.endswith("/pull"):
        return "messages that it took come again when their lease ends"
    if path == "/v1/messages":
        return "it may or may not have happened; without --key a second one may be there beside it"
    return "it may or may not have happened; look before you send it again"


def of_errors(errors: Sequence[HourwheelError], advice: str) -> Failure:
    """Return the failure of a request that succeeded at no node. `errors` has the error of each node that was asked, in
    order. `advice`: see when_unknown."""
    if all(isinstance(error, Unreachable) for error in errors):
        lines = [str(error) for error in errors]
        several = [f"cannot reach any of {len(lines)} nodes", *(f"  {line}" for line in lines)]
        return Failure(ExitCode.UNREACHABLE, "\n".join(several if len(lines) > 1 else lines))
    told = next(error for error in reversed(errors) if not isinstance(error, Unreachable))
    failure = _of_error(told, advice)
    others = [f"  asked too: {error}" for error in errors if error is not told]
    if told.problem is not None and others:
        others.append(f"  this is the answer of {told.address}")
    return Failure(failure.code, "\n".join([failure.message, *others]), failure.document) if others else failure


def _of_error(error: HourwheelError, advice: str) -> Failure:
    problem = error.problem
    if problem is not None:
        wait_s = problem.retry_after_s
        extra = {} if wait_s is None else {"retry_after": f"{wait_s:g} s"}
        return of_problem(problem.status, {**problem.document, **extra})
    if isinstance(error, OutcomeUnknown) and advice:
        return Failure(ExitCode.UNKNOWN, f"{error}; {advice}")
    return Failure(ExitCode.UNREACHABLE, str(error))
