"""Sends the request of a command to a cluster, one at a time, and tells the caller how it failed.

The standard library's client is used on purpose. These commands make one request each, and importing an async stack
would cost more than the request. `hourwheel.core` decides if another node is asked after a failure.
"""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import click

from cli.failure import Failure, of_errors, when_unknown
from cli.known_members import KnownMembers, cache_file
from hourwheel.core.addresses import Address, BadAddress, parse_addresses
from hourwheel.core.errors import HourwheelError, Unreachable, error_of, unreachable
from hourwheel.core.nodes import Nodes
from hourwheel.core.problem import read_document, read_problem
from hourwheel.core.retry import asks_one_node, next_try
from hourwheel.http_request import ask
from node.runtime.exit_code import ExitCode

DEFAULT_URL = "http://127.0.0.1:7400"
#: The longest wait for a connection. After it another node may be asked.
CONNECT_S: Final = 5.0
#: The longest wait for the list of members, which only the next command needs.
LOOK_S: Final = 1.0
CLUSTER: Final = "/v1/cluster"


@dataclass(frozen=True)
class Answer:
    """A successful answer: its status, headers in lower case, the decoded JSON object, and its bytes."""

    status: int
    headers: dict[str, str]
    document: dict[str, Any]
    payload: bytes


class Connection:
    """Requests to one cluster. `url` names one of its nodes or several, with commas between.

    `timeout_s` bounds each wait for bytes. A command remembers the members that it sees, in the user's cache directory,
    and asks them when none of the given nodes can be reached. A Connection that is made outside a command remembers
    none.
    """

    def __init__(self, url: str, timeout_s: float = 10.0) -> None:
        try:
            self._nodes = Nodes(parse_addresses(url), leader_first=False)
        except BadAddress as error:
            raise Failure(ExitCode.USAGE, str(error)) from None
        self._timeout_s = timeout_s
        path = cache_file() if click.get_current_context(silent=True) is not None else None
        self._known = KnownMembers(path) if path is not None else None
        self._remembered = False

    def call(
        self,
        method: str,
        path: str,
        document: Mapping[str, object] | bytes | None = None,
        wait_s: float = 0.0,
        headers: Mapping[str, str] | None = None,
        *,
        keyed: bool = False,
    ) -> Answer:
        """Send one request and return its 2xx answer. A mapping goes as JSON, bytes as they are.

        `wait_s` is how long the node may hold the request (long poll). `keyed`: the request has a key, so the user may
        send it again; the advice in a Failure says so. The next node is asked if a node could not be reached, if it is
        draining, or if a GET got no answer. No other node is asked if a change got no answer, because the change may
        have been done.

        Raises Failure. The code is UNREACHABLE when nothing was sent, or a GET got no answer. It is UNKNOWN when a
        change was sent and no answer came. Otherwise it is that of the node's problem.
        """
        body = json.dumps(document, ensure_ascii=False).encode() if isinstance(document, Mapping) else document
        sent = {"Accept": "application/json"} | ({"Content-Type": "application/json"} if body is not None else {})
        sent |= headers or {}
        errors: list[HourwheelError] = []
        for address, cluster_id in self._candidates(path):
            try:
                if cluster_id:
                    self._check(address, cluster_id)
                answer = self._ask(address, method, path, body, sent, self._timeout_s + wait_s)
            except HourwheelError as error:
                errors.append(error)
                found = next_try(method, False, error)
                if found is None or not found.another or found.after_s:
                    break
                self._nodes.failed(address, time.monotonic())
            else:
                self._nodes.answered(address)
                self._remember(address, method, path, answer)
                return answer
        raise of_errors(errors, when_unknown(method, path, keyed=keyed))

    def _candidates(self, path: str) -> Iterator[tuple[Address, str]]:
        """Yield the addresses to ask, in order. A remembered address comes with the id of the cluster that it must
        belong to, all others with ""."""
        if asks_one_node(path):
            yield self._nodes.given[0], ""
            return
        tried = self._nodes.order(time.monotonic())
        yield from ((address, "") for address in tried)
        found = self._known.find(self._nodes.given) if self._known is not None else None
        if found is not None:
            cluster_id, addresses = found
            yield from ((address, cluster_id) for address in addresses if address not in tried)

    def _ask(
        self, address: Address, method: str, path: str, body: bytes | None, headers: Mapping[str, str], timeout_s: float
    ) -> Answer:
        """Ask one node. Raises HourwheelError, or Failure if no node listens there."""
        try:
            found = ask(address, method, path, body, headers, connect_s=min(CONNECT_S, timeout_s), timeout_s=timeout_s)
        except Unreachable as error:
            if isinstance(error.__cause__, ConnectionRefusedError):
                detail = "connection refused; no node listens there (hourwheel dev starts some)"
                raise unreachable(address.url, detail) from None
            raise
        document = read_document(found.payload)
        if document is None:
            start = found.payload[:80].decode("utf-8", "replace")
            detail = f"{address} answered HTTP {found.status} with no JSON object: {start!r}"
            raise Failure(ExitCode.FAILED, f"{detail}; is it a Hourwheel node?")
        if not 200 <= found.status < 300:
            raise error_of(read_problem(found.status, found.headers, document), address.url)
        return Answer(found.status, found.headers, document, found.payload)

    # -- the members that were seen

    def _check(self, address: Address, cluster_id: str) -> None:
        """Check that a remembered address still belongs to that cluster. Raises Unreachable."""
        try:
            answer = self._ask(address, "GET", CLUSTER, None, {}, min(CONNECT_S, self._timeout_s))
        except Unreachable:
            raise
        except HourwheelError as error:
            raise unreachable(address.url, str(error)) from None
        if answer.document.get("cluster_id") != cluster_id:
            raise unreachable(address.url, "a node of another cluster listens there now")
        self._nodes.learn_cluster(answer.document)

    def _remember(self, address: Address, method: str, path: str, answer: Answer) -> None:
        """Write the cluster's members into the file that later commands read. A command does that at most once. If the
        file's members are older than FRESH_S, this node is asked for the members first."""
        now_s = time.time()
        if self._known is None or self._remembered:
            return
        self._remembered = True
        if (method, path) == ("GET", CLUSTER):
            self._nodes.learn_cluster(answer.document)
        elif "hourwheel-node" not in answer.headers or self._known.is_fresh(self._nodes.given, now_s):
            return
        else:
            try:
                looked = self._ask(address, "GET", CLUSTER, None, {}, min(LOOK_S, self._timeout_s))
            except (HourwheelError, Failure):
                return
            self._nodes.learn_cluster(looked.document)
        if self._nodes.cluster_id:
            self._known.keep(self._nodes.cluster_id, self._nodes.given, self._nodes.members.values(), now_s)
