"""One request to one node, by the standard library's HTTP client. `hourwheel.core` says what its failures mean."""

import http.client
from collections.abc import Mapping
from typing import NamedTuple

from hourwheel.core.addresses import Address
from hourwheel.core.errors import unanswered, unreachable


class HttpAnswer(NamedTuple):
    """The answer of a node, with any status. The names of `headers` are in lower case."""

    status: int
    headers: dict[str, str]
    payload: bytes


def ask(
    address: Address,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    connect_s: float,
    timeout_s: float,
) -> HttpAnswer:
    """Send the request on a connection of its own, and read the whole answer.

    `connect_s` bounds the wait for the connection, `timeout_s` each wait for bytes after that. Raises Unreachable if
    nothing was sent, with the OSError as its cause, and OutcomeUnknown if no whole answer came.
    """
    connection = http.client.HTTPConnection(address.host, address.port, timeout=connect_s)
    try:
        try:
            connection.connect()
        except OSError as error:
            raise unreachable(address.url, str(error)) from error
        try:
            connection.sock.settimeout(timeout_s)
            connection.request(method, path, body, dict(headers or {}))
            response = connection.getresponse()
            payload = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise unanswered(address.url, str(error) or type(error).__name__) from None
    finally:
        connection.close()
    return HttpAnswer(response.status, {name.lower(): value for name, value in response.getheaders()}, payload)
