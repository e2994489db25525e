"""Where a message is pushed to: its own target over its topic's, put together once and kept.

What a message says wins, field by field, and header by header; the secret is the topic's alone. The topic's headers
often hold a credential for the topic's URL, and whoever may schedule a message chooses its URL, so they do not go along
to another origin.

Headers of one attempt, a later line winning over an earlier one of the same name:

    User-Agent, Content-Type as the message has it  <  target's headers  <  message's headers  <  webhook-*, Hourwheel-*
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import msgpack
from yarl import URL

from api.timestamp import render_time
from node.push_address import literal
from node.push_signature import sign, signing_key
from node.retry import BAD_URL, NO_TARGET
from storage.record import Record
from storage.topic import Topic

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
_TAG_SAFE: Final = "!#$&'()*+-./:;<=>?@[]^_`{|}~ "


class Origin(NamedTuple):
    """What concurrency is bounded by: one receiver."""

    scheme: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, eq=False)
class PushTarget:
    """A usable target. `headers` have names in lower case; `timeout_ms` is from connecting to the answer's end."""

    url: URL
    origin: Origin
    method: str
    headers: Mapping[str, str]
    timeout_ms: int
    key: bytes | None


class BadTarget(Exception):
    """There is no usable target; `code` is of node.retry.REASONS."""

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
    return PushTarget(
        url=url,
        origin=origin,
        method=fields.get("method") or "POST",
        headers=_lower(headers),
        timeout_ms=fields.get("timeout_ms") or timeout_ms,
        key=key,
    )


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
            host = str(address)
            url = url.with_host(host)
    except ValueError as wrong:
        raise BadTarget(BAD_URL, f"{text[:200]!r} is no URL: {wrong}") from None
    return url, Origin(url.scheme, host, port)


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
            except BadTarget as bad:
                found = bad
            if len(self._known) >= CACHED_MAX:
                del self._known[next(iter(self._known))]
            self._known[name] = found
        return found


def make_headers(
    target: PushTarget, record: Record, *, id: str, topic: str, term: int, attempt: int, now_ms: int
) -> dict[str, str]:
    """All headers of one attempt but those the client adds itself (Host, Content-Length, Accept)."""
    headers = {"user-agent": AGENT, "content-type": record.content_type or JSON, **target.headers}
    if record.headers:
        headers.update(_lower(record.headers))
    now_s = now_ms // 1000
    headers["webhook-id"] = id
    headers["webhook-timestamp"] = str(now_s)
    if target.key is not None:
        headers["webhook-signature"] = sign(target.key, id, now_s, record.body)
    headers["Hourwheel-Topic"] = topic
    if record.tags:
        headers["Hourwheel-Tags"] = ",".join([quote(tag, safe=_TAG_SAFE) for tag in record.tags])
    headers["Hourwheel-Due"] = render_time(record.asked_due_ms)
    headers["Hourwheel-Attempt"] = str(attempt)
    headers["Hourwheel-Term"] = str(term)
    return headers
