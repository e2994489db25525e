"""Requests that nobody sends by accident: bytes that two nodes could read differently, and pages of other sites."""

import pytest

from tests.api.harness import check_problem, run, running, talk

_MESSAGE = b'{"topic":"a","body":1}'


def request(line: bytes, *headers: bytes, body: bytes = b"") -> bytes:
    """Of one connection."""
    lines = [line + b" HTTP/1.1", b"Connection: close", *headers, b"Content-Length: %d" % len(body)]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


@pytest.mark.parametrize(
    ("line", "header", "status", "code"),
    [
        (b"DELETE /v1/messages/x#junk", b"X-A: b", b"400", b"malformed-request"),
        (b"DELETE /v1/messages/x", b'If-Match: "\xff1"', b"400", b"malformed-request"),
        (b"POST /v1/messages", b"Content-Type: application/\xffjson", b"400", b"malformed-request"),
        (b"GET /v1/\xff\xfe", b"X-A: b", b"400", b"malformed-request"),
        (b"GET /v1/topics?\xffname=1", b"X-A: b", b"400", b"malformed-request"),
        (b"GET /v1/topics/%ff%fe/x", b"X-A: b", b"404", b"unknown-route"),
        (b"GET /livez", b"User-Agent: \xc3\xbc\xff", b"200", b"ok"),
    ],
)
def test_bytes_that_are_no_text(line: bytes, header: bytes, status: bytes, code: bytes) -> None:
    """B18: a fragment was cut off on the way to the leader, a header changed; what could not be written was 400 "not
    HTTP/1.1". The same answer on every node, before anything is passed on."""

    async def story() -> None:
        for leads in (True, False):
            async with running() as client:
                client.port.leading = leads
                answer = await talk(client.server, request(line, b"Host: x", header))
                assert answer.startswith(b"HTTP/1.1 " + status), answer
                assert code in answer

    run(story())


@pytest.mark.parametrize(
    ("headers", "taken"),
    [
        ((b"Host: evil.example", b"Origin: http://evil.example"), False),  # a name that was given this node's address
        ((b"Host: 127.0.0.1:7400", b"Origin: http://evil.example"), False),
        ((b"Host: 127.0.0.1:7400", b"Origin: null"), False),
        ((b"Host: 127.0.0.1:7400", b"Sec-Fetch-Site: cross-site"), False),
        ((b"Host: 127.0.0.1:7400", b"Sec-Fetch-Site: same-site"), False),
        ((b"Host: n1.example", b"Sec-Fetch-Site: same-origin"), True),
        ((b"Host: n1.example:7400", b"Origin: http://n1.example:7400"), True),
        ((b"Host: 127.0.0.1:7400", b"Origin: http://127.0.0.1:7400"), True),
        ((b"Host: [::1]:7400", b"Origin: http://[::1]:7400", b"Sec-Fetch-Site: same-origin"), True),
        ((b"Host: localhost", b"Origin: https://localhost"), True),
        ((b"Host: evil.example",), True),  # no browser: a client, or a proxy under a name of its own
    ],
)
def test_a_page_of_another_site_changes_nothing(headers: tuple[bytes, ...], taken: bool) -> None:
    """B18: `POST /v1/node/drain` with Origin and Host of evil.example drained the node."""

    async def story() -> None:
        async with running() as client:
            answer = await talk(client.server, request(b"POST /v1/messages", *headers, body=_MESSAGE))
            assert answer.startswith(b"HTTP/1.1 201" if taken else b"HTTP/1.1 403"), answer
            assert bool(client.port.held) is taken
            assert taken or b'"code":"forbidden"' in answer

    run(story())


@pytest.mark.parametrize(
    ("query", "parameter"),
    [("tag=%ff", ""), ("&".join(f"tag{n}=1" for n in range(40)), ""), ("tag=a&tag=b", "tag"), ("tgg=a", "tgg")],
)
def test_a_query_that_cannot_be_read_says_where(query: str, parameter: str) -> None:
    """B18: 422 had no `errors`, and of two values the second was taken in silence."""

    async def story() -> None:
        async with running() as client:
            reply = await client.send("GET", f"/v1/messages/count?{query}")
            document = check_problem(reply, 422, "unknown-field" if parameter == "tgg" else "invalid-field", "")
            assert document["errors"][0].get("parameter", "") == parameter

    run(story())


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00%2B23:59"])
def test_times_outside_the_calendar_are_refused(text: str) -> None:
    """B18: 500 `internal`."""

    async def story() -> None:
        async with running() as client:
            for path in ("/v1/ledger", "/v1/ledger/summary", "/v1/messages/count"):
                reply = await client.send("GET", f"{path}?from={text}")
                assert check_problem(reply, 422, "invalid-field")["errors"][0]["parameter"] == "from"

    run(story())
