"""One request to one node, and what its failures mean to the caller.

The standard library's client is used on purpose: these commands make one request each, and importing an async stack
would cost more than the request. What matters is the line between "nothing was sent" (connecting failed: safe to try
again) and "sent, no answer" (may have happened).
"""

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from cli.failure import Failure, of_problem
from node.runtime.exit_code import ExitCode

DEFAULT_URL = "http://127.0.0.1:7400"


@dataclass(frozen=True)
class Answer:
    """A successful answer: its status, headers in lower case, and the decoded JSON object."""

    status: int
    headers: dict[str, str]
    document: dict[str, Any]


class Connection:
    """Requests to the node at `url`; `timeout_s` bounds connecting and each wait for bytes."""

    def __init__(self, url: str, timeout_s: float = 10.0) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        try:
            port = parts.port
        except ValueError as error:
            raise Failure(ExitCode.USAGE, f"{url!r} is not an address: {error}") from None
        if parts.scheme != "http" or not parts.hostname or parts.path.strip("/"):
            raise Failure(ExitCode.USAGE, f"{url!r} is not an address of a node; give http://HOST:PORT")
        self.url = f"http://{parts.netloc}"
        self._host, self._port, self._timeout_s = parts.hostname, port or 80, timeout_s

    def call(
        self,
        method: str,
        path: str,
        document: Mapping[str, object] | bytes | None = None,
        wait_s: float = 0.0,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Sends one request, its document as JSON or as the bytes given, and returns its 2xx answer. `wait_s` is how
        long the node may hold it (long poll).

        Raises Failure: UNREACHABLE when nothing was sent (or a GET got no answer), UNKNOWN when a change was sent and
        no answer came, the problem's own code otherwise.
        """
        body = json.dumps(document, ensure_ascii=False).encode() if isinstance(document, Mapping) else document
        sent = {"Accept": "application/json"} | ({"Content-Type": "application/json"} if body is not None else {})
        sent |= headers or {}
        connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_s)
        try:
            self._connect(connection)
            try:
                if connection.sock is not None:
                    connection.sock.settimeout(self._timeout_s + wait_s)
                connection.request(method, path, body, sent)
                response = connection.getresponse()
                payload = response.read()
            except (OSError, http.client.HTTPException) as error:
                raise self._unanswered(method, error) from None
        finally:
            connection.close()
        answer = self._decode(response.status, {k.lower(): v for k, v in response.getheaders()}, payload)
        if not 200 <= answer.status < 300:
            retry_after = answer.headers.get("retry-after")
            extra = {"retry_after": f"{retry_after} s"} if retry_after else {}
            raise of_problem(answer.status, answer.document | extra)
        return answer

    def _connect(self, connection: http.client.HTTPConnection) -> None:
        try:
            connection.connect()
        except ConnectionRefusedError:
            detail = f"cannot reach {self.url}: connection refused; no node listens there (hourwheel dev starts some)"
            raise Failure(ExitCode.UNREACHABLE, detail) from None
        except OSError as error:
            raise Failure(ExitCode.UNREACHABLE, f"cannot reach {self.url}: {error}") from None

    def _unanswered(self, method: str, error: Exception) -> Failure:
        reason = str(error) or type(error).__name__
        if method == "GET":
            return Failure(ExitCode.UNREACHABLE, f"{self.url} did not answer: {reason}")
        detail = f"{self.url} did not answer: {reason}; it may or may not have happened, send again with the same key"
        return Failure(ExitCode.UNKNOWN, detail)

    def _decode(self, status: int, headers: dict[str, str], payload: bytes) -> Answer:
        try:
            document = json.loads(payload)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            start = payload[:80].decode("utf-8", "replace")
            raise Failure(
                ExitCode.FAILED,
                f"{self.url} answered HTTP {status} with no JSON object: {start!r}; is it a Hourwheel node?",
            )
        return Answer(status, headers, document)
