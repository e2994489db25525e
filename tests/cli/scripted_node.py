"""A node that says what a test tells it to say, over a real socket."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from hourwheel.core.problem import read_whole


class ScriptedNode:
    """Answers requests with `say(...)` in order; `requests` holds (method, path, document) of those received, `headers`
    their headers in lower case, `bodies` their bytes.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.bodies: list[bytes] = []
        self._script: list[tuple[int, bytes, dict[str, str]] | None] = []
        node = self

        class Handler(BaseHTTPRequestHandler):
            """One request: recorded, then the next line of the script."""

            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                node.bodies.append(body)
                node.requests.append(
                    (self.command, self.path, json.loads(body, parse_int=read_whole) if body else None)
                )
                node.headers.append({name.lower(): value for name, value in self.headers.items()})
                answer = node._script.pop(0)
                if answer is None:
                    self.close_connection = True
                    return
                status, payload, headers = answer
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

            def log_message(self, format: str, *args: object) -> None:
                """Silence: the tests look at `requests`."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def say(self, status: int, document: object, headers: dict[str, str] | None = None) -> None:
        """The next answer: a JSON document, or bytes as they are."""
        payload = document if isinstance(document, bytes) else json.dumps(document).encode()
        self._script.append((status, payload, headers or {}))

    def hang_up(self) -> None:
        """The next request is read and the connection closed without an answer."""
        self._script.append(None)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
