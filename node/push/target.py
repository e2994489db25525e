"""Where a message is pushed to: its own target over its topic's, put together once and kept.

What a message says wins, field by field, and header by header; the secret is the topic's alone. The topic's headers
often hold a credential for the topic's URL, and whoever may schedule a message chooses its URL, so they do not go along
to another origin.

Headers of one attempt, a later line winning over an earlier one of the same name:

    User-Agent, Content-Type as the message has it  <  target's headers  <  message's headers  <  webhook-*, Hourwheel-*

What is the same for all messages of a target is rendered once.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import quote

import msgpack
from yarl import URL

from api.port.address_guard import literal
from api.port.timestamp import render_time
from node.push.answer import Answer
from node.push.signature import sign, signing_key
from node.settle.retry import BAD_URL, NO_TARGET
from storage.catalog.topic import Topic
from storage.format.record import Record

CACHED_MAX: Final = 4096
"""Targets kept; with more of them in use each is put together anew now and then."""

JSON: Final = "application/json"
AGENT: Final = "hourwheel"

_OURS: Final = ("webhook-", "hourwheel-")
#: Those of the hop, of the body's length, and Expect, which would hold the body back until the receiver asks for it.
_NOT_THEIRS: Final = frozenset(
    ("host", "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te")
    + ("trailer", "transfer-encoding", "upgrade", "content-length", "expect")
)
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
#: A URL's path and query, of characters that need no escape (RFC 3986).
_TAIL: Final = re.compile(r"[A-Za-z]+://[^/?#]*([A-Za-z0-9\-._~:/?@!$&'()*+,;=%]*)")
_END: Final = "\r\n"
_TAG_SAFE: Final = "!#$&'()*+-./:;<=>?@[]^_`{|}~ "


class Origin(NamedTuple):
    """What concurrency is bounded by: one receiver."""

    scheme: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, eq=False)
class PushTarget:
    """A usable target. `headers` have names in lower case; `timeout_ms` is from connecting to the answer's end; `start`
    is the request's first lines, those that no message can change."""

    url: URL
    origin: Origin
    method: str
    headers: Mapping[str, str]
    timeout_ms: int
    key: bytes | None
    start: bytes
    topic: int = 0  # its number


class BadTarget(Exception):
    """There is no usable target; `code` is of node.settle.retry.REASONS."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def make_target(settings: Mapping[str, Any], own: Mapping[str, Any], timeout_ms: int) -> PushTarget:
    """The topic's settings with a message's `own` target over them; `timeout_ms` where neither says. Raises
    BadTarget."""
    topics: Mapping[str, Any] = settings.get("target") or {}
    fields = {**topics, **{name: value for name, value in own.items() if value is not None}}
    if not fields.get("url"):
        raise BadTarget(NO_TARGET, "neither the message nor its topic has a target")
    url, origin = _read_url(fields["url"])
    headers = own.get("headers") or {}
    if not topics.get("url") or _same_origin(topics["url"], origin):
        headers = {**_lower(topics.get("headers") or {}), **_lower(headers)}
    try:
        key = signing_key(topics["secret"]) if topics.get("secret") else None
    except ValueError as wrong:
        raise BadTarget(NO_TARGET, f"the topic's secret: {wrong}") from None
    method = fields.get("method") or "POST"
    if not _TOKEN.fullmatch(method):
        raise BadTarget(BAD_URL, f"{method[:200]!r} is no method")
    start = f"{method} {_path_of(fields['url'], url)} HTTP/1.1\r\nHost: {url.host_port_subcomponent}\r\n"
    return PushTarget(
        url=url,
        origin=origin,
        method=method,
        headers={**_credentials(url), **_lower(headers)},
        timeout_ms=fields.get("timeout_ms") or timeout_ms,
        key=key,
        start=start.encode(),
    )


def _credentials(url: URL) -> dict[str, str]:
    """Those written into the URL, as the header that carries them."""
    if url.user is None:
        return {}
    text = f"{url.user}:{url.password or ''}"
    return {"authorization": "Basic " + base64.b64encode(text.encode(errors="surrogatepass")).decode("ascii")}


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    """By name in lower case, without those that are ours or the connection's. The API refuses most of them; what gets
    here all the same must not forge a signature's headers or the length of the body."""
    lowered = {name.lower(): value for name, value in headers.items()}
    return {name: value for name, value in lowered.items() if name not in _NOT_THEIRS and not name.startswith(_OURS)}


def _read_url(text: str) -> tuple[URL, Origin]:
    """An address in any notation is written the usual way, so that the socket's guard judges it, not a parser."""
    try:
        url = URL(text)
        host, port = url.raw_host, url.port
        if url.scheme not in ("http", "https") or not host or not port:
            raise BadTarget(BAD_URL, f"{text[:200]!r} is no http or https URL with a host")
        address = literal(host)
        if address is not None:
            # A mapped address is the IPv4 one to the socket, and interpreters differ in how they write it.
            host = str((address.ipv4_mapped if address.version == 6 else None) or address)
            url = url.with_host(host)
    except (ValueError, IndexError) as wrong:  # yarl looks behind the end of a host such as "]("
        raise BadTarget(BAD_URL, f"{text[:200]!r} is no URL: {wrong}") from None
    return url, Origin(url.scheme, host, port)


def _path_of(text: str, url: URL) -> str:
    """Path and query as they were written, if they may go out so: parsed and written again, `%2F` becomes `/`, and
    receivers check signatures of the bytes they get."""
    tail = _TAIL.fullmatch(text)
    if tail is None:
        return url.raw_path_qs
    return tail[1] if tail[1].startswith("/") else f"/{tail[1]}"


def _same_origin(text: str, origin: Origin) -> bool:
    try:
        return _read_url(text)[1] == origin
    except BadTarget:
        return False


class Targets:
    """Targets by topic, its revision and what the message says itself; `timeout_ms` where neither says."""

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._known: dict[tuple[int, int, bytes], PushTarget | BadTarget] = {}

    def of(self, topic: Topic, own: bytes) -> PushTarget | BadTarget:
        """The target of a message whose record has `own` as its target; BadTarget is returned, not raised."""
        name = (topic.number, topic.revision, own)
        found = self._known.get(name)
        if found is None:
            try:
                found = make_target(topic.settings, msgpack.unpackb(own) if own else {}, self._timeout_ms)
                found = replace(found, topic=topic.number)
            except BadTarget as bad:
                found = bad
            if len(self._known) >= CACHED_MAX:
                del self._known[next(iter(self._known))]
            self._known[name] = found
        return found


def make_head(
    target: PushTarget, record: Record, *, id: str, topic: str, term: int, attempt: int, now_ms: int
) -> bytes:
    """The head of one attempt's request, with its empty line. Raises ValueError where a header cannot be sent."""
    now_s = now_ms // 1000
    if record.headers:
        theirs = _lower(record.headers)
        lines = _render({"content-type": record.content_type or JSON, **target.headers, **theirs})
    else:
        lines = _lines_of(target, record.content_type)
    signature = f"webhook-signature: {sign(target.key, id, now_s, record.body)}\r\n" if target.key is not None else ""
    tags = ",".join([quote(tag, safe=_TAG_SAFE) for tag in record.tags]) if record.tags else ""
    ours = (
        f"webhook-id: {id}\r\nwebhook-timestamp: {now_s}\r\n{signature}Hourwheel-Topic: {topic}\r\n"
        f"{f'Hourwheel-Tags: {tags}{_END}' if tags else ''}Hourwheel-Due: {render_time(record.asked_due_ms)}\r\n"
        f"Hourwheel-Attempt: {attempt}\r\nHourwheel-Term: {term}\r\nContent-Length: {len(record.body)}\r\n\r\n"
    )
    return b"".join((target.start, lines, ours.encode()))


@lru_cache(maxsize=CACHED_MAX)
def _lines_of(target: PushTarget, content_type: str) -> bytes:
    """Header lines of a message without headers of its own."""
    return _render({"content-type": content_type or JSON, **target.headers})


def _render(headers: Mapping[str, str]) -> bytes:
    """Header lines. A line break would forge headers: ValueError."""
    lines: list[str] = []
    for name, value in {"user-agent": AGENT, "accept": "*/*", **headers}.items():
        if not _TOKEN.fullmatch(name) or _CONTROLS.search(value):
            raise ValueError(f"the header {name[:200]!r} cannot be sent")
        lines.append(f"{name}: {value}\r\n")
    return "".join(lines).encode()


class Receivers(Protocol):
    """What sends webhooks, as node.push.client has it."""

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    def send(
        self,
        target: PushTarget,
        head: bytes,
        body: bytes,
        may_send: Callable[[], bool],
        ended: Callable[[Answer], None],
    ) -> object: ...
