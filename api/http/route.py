"""The routes of the contract: those served, and those that are only promised.

A path without parameters is found by one dict look-up, the others by their pattern. Routes that are not served are
refused in two ways:
- `unknown-route` with the detail "not supported yet": a path of the contract that this version does not have.
- 405 with Allow: any other method on a served path.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final
from urllib.parse import unquote

import msgspec

from api.contract.operation import Operation
from api.http.answer import Answer
from api.http.exchange import Exchange
from api.port.problem import Problem

Handler = Callable[[Exchange], Awaitable[Answer]]


class Route(msgspec.Struct, frozen=True):
    """A method on a path pattern (`{name}` stands for a segment).

    - `leader`: only the leader answers, and other nodes pass the request on, unless `stays` lets this node answer.
    - `batch`: its body may have as many bytes as a batch.
    - `waits`: may wait for long. A drain of the node ends the wait.
    - `keyed`: takes an `Idempotency-Key`.
    - `nothing`: the body of the answer to a wait that ends before it found anything.
    - `health`: is answered while draining.
    - `says`: the operation in docs/openapi.json. Routes between nodes are `internal` and have none.
    """

    method: str
    pattern: str
    handler: Handler
    leader: bool = True
    stays: Callable[[Exchange], bool] | None = None
    batch: bool = False
    waits: bool = False
    keyed: bool = False
    nothing: bytes = b""
    health: bool = False
    says: Operation | None = None
    internal: bool = False


#: Paths of the contract that no handler serves yet.
_PLANNED_PATHS: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"/v1/topics/[^/]+/subscriptions(/.*)?",
        r"/v1/(schedules|transactions|events)(/.*)?",
        r"/openapi\.json|/console(/.*)?",
    )
)


class RouteTable:
    """Finds the route of a request by its method and path, or the refusal that says why there is none."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._exact: dict[str, dict[str, Route]] = {}
        self._patterns: list[tuple[re.Pattern[str], dict[str, Route]]] = []
        by_pattern: dict[str, dict[str, Route]] = {}
        for route in routes:
            by_pattern.setdefault(route.pattern, {})[route.method] = route
        for pattern, methods in by_pattern.items():
            if "{" not in pattern:
                self._exact[pattern] = methods
            else:
                self._patterns.append((re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", pattern)), methods))

    def find(self, method: str, target: str) -> tuple[Route, Mapping[str, str]]:
        """Return the route and the path's parameters. Raises 404 or 405 as a `Problem`."""
        path = target.partition("?")[0]
        methods = self._exact.get(path)
        params: Mapping[str, str] = {}
        planned = self._planned_path(path) if methods is None else False
        if methods is None and not planned:
            for pattern, candidate in self._patterns:
                match = pattern.fullmatch(path)
                if match is not None:
                    methods = candidate
                    params = {name: unquote(text) for name, text in match.groupdict().items()}
                    break
        if methods is not None:
            route = methods.get("GET" if method == "HEAD" else method)
            if route is not None:
                return route, params
        raise self._refusal(method, path, methods, planned)

    @staticmethod
    def _planned_path(path: str) -> bool:
        return any(pattern.fullmatch(path) for pattern in _PLANNED_PATHS)

    @staticmethod
    def _refusal(method: str, path: str, methods: Mapping[str, Route] | None, planned: bool) -> Problem:
        if methods is not None:
            allowed = sorted([*methods, *(["HEAD"] if "GET" in methods else [])])
            allow = ", ".join(allowed)
            return Problem(
                "method-not-allowed", f"{method} is not a method of this route; use {allow}", headers={"Allow": allow}
            )
        if planned:
            return Problem("unknown-route", "this route is part of the contract but not supported yet")
        return Problem("unknown-route", f'there is no route "{path[:100]}"; the API begins with /v1/')
