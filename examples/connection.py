"""Sends requests to a Hourwheel cluster, and sends them again where that is safe.

The package `hourwheel` sends one request, and knows which node to ask and what an error means.
"""

import json
import random
import time
from typing import Any

from hourwheel.core.addresses import Address, parse_addresses
from hourwheel.core.errors import HourwheelError, error_of
from hourwheel.core.nodes import Nodes
from hourwheel.core.problem import read_document, read_problem
from hourwheel.core.retry import Retry
from hourwheel.http_request import ask

#: The states of a message that has not ended.
OPEN = ("scheduled", "ready", "leased")


class Connection:
    """One cluster, by the URL of one node or of several with commas between."""

    def __init__(self, urls: str, timeout_s: float = 10.0) -> None:
        self._nodes = Nodes(parse_addresses(urls))
        self._retry = Retry()
        self._timeout_s = timeout_s

    def send(
        self, method: str, path: str, document: object = None, *, keyed: bool = False, wait_s: float = 0.0
    ) -> dict[str, Any]:
        """Send a request and return the answer's JSON object. Raises HourwheelError.

        A request that failed is sent again where that is safe. `keyed`: the request has a key, or doing it twice is as
        good as once. Then it is sent again even if it may have been done already. A pull may wait for `wait_s`.
        """
        body = None if document is None else json.dumps(document).encode()
        begin_s, tries = time.monotonic(), 0
        while True:
            address = self._nodes.order(time.monotonic())[0]
            tries += 1
            try:
                answer = self._ask(address, method, path, body, self._timeout_s + wait_s)
            except HourwheelError as error:
                now_s = time.monotonic()
                again = self._retry.next_try(
                    method, keyed, error, tries=tries, spent_s=now_s - begin_s, chance=random.random()
                )
                if again is None:
                    raise
                if again.another:
                    self._nodes.failed(address, now_s)
                time.sleep(again.after_s)
            else:
                self._nodes.answered(address)
                return answer

    def schedule(self, topic: str, body: object, after: str, key: str) -> dict[str, Any]:
        """Schedule a message, or find the one with this key. Return it as it is now. Raises HourwheelError.

        Because of the key it is one message, also if the answer was lost and the request is sent again. A message that
        was scheduled long ago may have ended. So it is read again by GET.
        """
        wanted = {"topic": topic, "body": body, "delay": after, "key": key, "on_conflict": "keep"}
        id = self.send("POST", "/v1/messages", wanted, keyed=True)["id"]
        return self.send("GET", f"/v1/messages/{id}?ledger=false")

    def _ask(self, address: Address, method: str, path: str, body: bytes | None, timeout_s: float) -> dict[str, Any]:
        """Ask one node. Raises HourwheelError."""
        headers = {"Content-Type": "application/json"} if body else {}
        answer = ask(address, method, path, body, headers, connect_s=self._timeout_s, timeout_s=timeout_s)
        document = read_document(answer.payload)
        if answer.status >= 300 or document is None:
            raise error_of(read_problem(answer.status, answer.headers, answer.payload), address.url)
        return document
