"""Finding a route, and the four ways of not having one."""

import pytest

from api.http.route import RouteTable
from api.port.problem import Problem
from api.serve import ROUTES

_TABLE = RouteTable(ROUTES)


@pytest.mark.parametrize(
    ("method", "target", "pattern", "params"),
    [
        ("POST", "/v1/messages", "/v1/messages", {}),
        ("POST", "/v1/messages/batch?atomic=false", "/v1/messages/batch", {}),
        ("GET", "/v1/messages/ABC?consistency=local", "/v1/messages/{id}", {"id": "ABC"}),
        ("DELETE", "/v1/messages/ABC", "/v1/messages/{id}", {"id": "ABC"}),
        ("GET", "/v1/topics", "/v1/topics", {}),
        ("PUT", "/v1/topics/a%2Fb", "/v1/topics/{topic}", {"topic": "a/b"}),
        ("PATCH", "/v1/topics/a", "/v1/topics/{topic}", {"topic": "a"}),
        ("POST", "/v1/topics/a/pull", "/v1/topics/{topic}/pull", {"topic": "a"}),
        ("POST", "/v1/topics/a/ack", "/v1/topics/{topic}/ack", {"topic": "a"}),
        ("POST", "/v1/topics/a/nack", "/v1/topics/{topic}/nack", {"topic": "a"}),
        ("POST", "/v1/topics/a/extend", "/v1/topics/{topic}/extend", {"topic": "a"}),
        ("GET", "/v1/topics/a/dead?limit=1", "/v1/topics/{topic}/dead", {"topic": "a"}),
        ("PATCH", "/v1/messages/ABC", "/v1/messages/{id}", {"id": "ABC"}),
        ("GET", "/v1/messages/count?topic=a", "/v1/messages/count", {}),
        ("GET", "/v1/messages/histogram", "/v1/messages/histogram", {}),
        ("POST", "/v1/messages/redrive", "/v1/messages/redrive", {}),
        ("POST", "/v1/cluster/transfer", "/v1/cluster/transfer", {}),
        ("HEAD", "/livez", "/livez", {}),
        ("GET", "/readyz?verbose", "/readyz", {}),
    ],
)
def test_found(method: str, target: str, pattern: str, params: dict[str, str]) -> None:
    """The route and its parameters, decoded; the query plays no part; HEAD finds GET."""
    route, found = _TABLE.find(method, target)
    assert (route.pattern, dict(found)) == (pattern, params)


def _refusal(method: str, target: str) -> Problem:
    with pytest.raises(Problem) as caught:
        _TABLE.find(method, target)
    return caught.value


@pytest.mark.parametrize(
    ("method", "target", "allow"),
    [
        ("PUT", "/v1/messages", "GET, HEAD, POST"),
        ("GET", "/v1/messages/batch", "POST"),
        ("POST", "/v1/messages/ABC", "DELETE, GET, HEAD, PATCH"),
        ("POST", "/v1/topics/a", "DELETE, GET, HEAD, PATCH, PUT"),
        ("GET", "/v1/topics/a/pull", "POST"),
        ("POST", "/metrics", "GET, HEAD"),
    ],
)
def test_wrong_method(method: str, target: str, allow: str) -> None:
    """405 with Allow on a path that is served."""
    problem = _refusal(method, target)
    assert (problem.code, problem.headers) == ("method-not-allowed", {"Allow": allow})


@pytest.mark.parametrize(
    "target",
    [
        "/v1/topics/a/subscriptions/b",
        "/v1/schedules/x",
        "/v1/transactions",
        "/v1/events",
        "/openapi.json",
        "/console",
    ],
)
def test_planned_paths(target: str) -> None:
    """A path of the contract that is not there yet is unknown, and says that it will be known."""
    for method in ("GET", "POST"):
        problem = _refusal(method, target)
        assert problem.code == "unknown-route"
        assert "not supported yet" in problem.detail


@pytest.mark.parametrize("target", ["/", "", "/v2/messages", "/v1/messages/", "/v1/messages/a/b", "/v1/topics//pull"])
def test_unknown(target: str) -> None:
    """Anything else is no route."""
    problem = _refusal("GET", target)
    assert problem.code == "unknown-route"
    assert "not supported yet" not in problem.detail
