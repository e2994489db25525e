"""Where a message is pushed to: the fields of its own target and, where it has none, those of its topic. Targets are
put together once and kept.

The message's value wins, field by field and header by header. The secret is the topic's alone. The topic's headers
often hold a credential for the topic's URL. A client that may schedule a message may choose its URL. So the topic's
headers are sent only if the message's URL has the same origin as the topic's.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any, Final

import msgpack
import msgspec
from yarl import URL

from api.port.address_guard import literal
from node.port.failure_code import BAD_URL, NO_TARGET
from node.port.push_port import TOKEN, Origin, PushTarget, chosen_headers
from node.push.signing_key import signing_key
from storage.tables.topic import Topic

CACHED_MAX: Final = 4096
"""Targets kept. If more are in use, targets are put together anew now and then."""

#: A URL's path and query, of characters that need no escape (RFC 3986).
_TAIL: Final = re.compile(r"[A-Za-z]+://[^/?#]*([A-Za-z0-9\-._~:/?@!$&'()*+,;=%]*)")


class BadTarget(Exception):
    """A message has no usable target. `code` is one of node/port/failure_code.py."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def make_target(settings: Mapping[str, Any], own: Mapping[str, Any], timeout_ms: int) -> PushTarget:
    """Put together the target of a message: its `own` fields over those of the topic's settings. `timeout_ms` holds if
    neither has a timeout. Raises BadTarget."""
    topics: Mapping[str, Any] = settings.get("target") or {}
    fields = {**topics, **{name: value for name, value in own.items() if value is not None}}
    if not fields.get("url"):
        raise BadTarget(NO_TARGET, "neither the message nor its topic has a target")
    url, origin = _read_url(fields["url"])
    headers = own.get("headers") or {}
    if not topics.get("url") or _same_origin(topics["url"], origin):
        headers = {**chosen_headers(topics.get("headers") or {}), **chosen_headers(headers)}
    try:
        key = signing_key(topics["secret"]) if topics.get("secret") else None
    except ValueError as wrong:
        raise BadTarget(NO_TARGET, f"the topic's secret: {wrong}") from None
    method = fields.get("method") or "POST"
    if not TOKEN.fullmatch(method):
        raise BadTarget(BAD_URL, f"{method[:200]!r} is no method")
    start = f"{method} {_path_of(fields['url'], url)} HTTP/1.1\r\nHost: {url.host_port_subcomponent}\r\n"
    return PushTarget(
        url=str(url),
        origin=origin,
        method=method,
        headers={**_credentials(url), **chosen_headers(headers)},
        timeout_ms=fields.get("timeout_ms") or timeout_ms,
        key=key,
        start=start.encode(),
    )


def _credentials(url: URL) -> dict[str, str]:
    """The credentials that are written into the URL, as the header that carries them."""
    if url.user is None:
        return {}
    text = f"{url.user}:{url.password or ''}"
    return {"authorization": "Basic " + base64.b64encode(text.encode(errors="surrogatepass")).decode("ascii")}


def _read_url(text: str) -> tuple[URL, Origin]:
    """Read a URL. If its host is an IP address in an unusual notation, write that the usual way. Then the guard at the
    socket judges the same address that the parser read. Raises BadTarget."""
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
    """The path and query as the client wrote them, if every character may be sent as it is. A parser would turn `%2F`
    into `/`, and receivers may check a signature over the bytes that they get."""
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
    """Keeps targets by the topic, its revision and the message's own target. `timeout_ms` is the timeout of targets for
    which message and topic name none."""

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._known: dict[tuple[int, int, bytes], PushTarget | BadTarget] = {}

    def of(self, topic: Topic, own: bytes) -> PushTarget | BadTarget:
        """The target of a message. `own` is the target in its record, packed, or empty. A BadTarget is returned, not
        raised."""
        name = (topic.number, topic.revision, own)
        found = self._known.get(name)
        if found is None:
            try:
                found = make_target(topic.settings, msgpack.unpackb(own) if own else {}, self._timeout_ms)
                found = msgspec.structs.replace(found, topic=topic.number)
            except BadTarget as bad:
                found = bad
            if len(self._known) >= CACHED_MAX:
                del self._known[next(iter(self._known))]
            self._known[name] = found
        return found
