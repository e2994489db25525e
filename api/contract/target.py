"""Field readers of a `target`, of a topic or of one message: where a webhook may go. They run before anything is
connected.

The danger is in the address. A URL names its host in one of many notations, and the system that connects reads more of
them than people do. `http://2130706433/`, `http://0x7f.1/` and `http://[::ffff:7f00:1]/` all mean this machine. So the
host is parsed by the rules of inet_aton, not by looks. The operator's rules (`[push] allow`) then see the address in
its one canonical form. The guard at the socket checks every connection again, so it finds a name that resolves to a
forbidden address. Refusing here tells the author of the request at once.

A URL that two readers could understand differently is refused: user names (`http://good@evil/`), backslashes, white
space, percent signs in the host.
"""

import binascii
import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Final

from api.contract import schema
from api.contract.checker import HEADER_BYTES_MAX, Fault, read_choice, read_duration, read_headers, wrong_type
from api.contract.kind import Kind
from api.contract.object import Fields, or_null, read_inner
from api.port.address_guard import Addresses
from api.port.duration import render_duration
from api.port.message import Target
from api.port.port import Limits

URL_BYTES_MAX: Final = 2048
#: Methods of a delivery. It carries a body, which has no meaning with GET and DELETE (RFC 9110 section 9.3), so these
#: are left out.
METHODS: Final = ("POST", "PUT", "PATCH")
TIMEOUT_MIN_MS: Final = 100
TIMEOUT_MAX_MS: Final = 5 * 60_000
SECRET_PREFIX: Final = "whsec_"
SECRET_BYTES_MIN: Final = 24
SECRET_BYTES_MAX: Final = 64

_HOST_BYTES_MAX: Final = 253
_PARTS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^#]*)(#?).*", re.DOTALL)
_AUTHORITY = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::([0-9]*))?", re.ASCII)
_UNSAFE = re.compile(r"[\x00-\x20\x7f-\xa0\\\s]")
_LABEL = re.compile(r"[A-Za-z0-9_-]{1,63}", re.ASCII)
_NUMBER = re.compile(r"0[xX]([0-9A-Fa-f]*)|0([0-7]*)|([1-9][0-9]*)", re.ASCII)
_NUMERIC = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*", re.ASCII)


def _bad(detail: str) -> Fault:
    return Fault("invalid-field", detail)


def read_url(value: object, limits: Limits) -> str:
    """Return an http or https URL unchanged, if a push may go to its host. Raises `Fault`."""
    if type(value) is not str:
        raise wrong_type("a string", value)
    address, allow = _address_in(value), limits.push_allow
    if address and allow is not None and not any(map(_guard(allow).allows, address)):
        raise _bad(f"pushes may not go to {address[0]}; an operator can allow it with [push] allow")
    return value


@lru_cache(maxsize=16)
def _guard(allow: tuple[str, ...]) -> Addresses:
    """Return a guard for the networks in `allow`, of the same class as the guard at the sockets of the push wire."""
    return Addresses(allow)


@lru_cache(maxsize=4096)
def _address_in(url: str) -> tuple[str, ...]:
    """Return the addresses that the URL's host means without asking DNS, in canonical text. () for a name."""
    if not 1 <= len(url.encode()) <= URL_BYTES_MAX:
        raise _bad(f"a URL is 1 to {URL_BYTES_MAX} bytes, got {len(url.encode())}")
    if _UNSAFE.search(url):
        raise _bad("a URL holds no white space, control characters or backslashes; percent-encode them")
    parts = _PARTS.fullmatch(url)
    if parts is None:
        raise _bad('a URL is absolute, such as "https://example.com/hook"')
    scheme, authority, _, fragment = parts.groups()
    if scheme.lower() not in ("http", "https"):
        raise _bad(f'a URL begins with http:// or https://, got "{scheme[:20]}"')
    if "@" in authority:
        raise _bad("a URL holds no user name or password; send credentials as a header of the target")
    if fragment:
        raise _bad("a URL for a request has no fragment (#...)")
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        raise _bad("the URL's host is a name or an address, an IPv6 address in brackets, and a port of digits")
    host, port = match.groups()
    if not host:
        raise _bad("the URL has no host")
    if port is not None and not (len(port) <= 5 and port and 1 <= int(port) <= 65_535):
        raise _bad(f'a port is 1 to 65535, got "{port[:20]}"')
    return _ipv6(host[1:-1]) if host.startswith("[") else _name_or_ipv4(host)


def _ipv6(text: str) -> tuple[str, ...]:
    if "%" in text:
        raise _bad("an address with a zone id means a link of one machine; every node may have to push")
    try:
        address = IPv6Address(text)
    except ValueError:
        raise _bad(f'"{text[:60]}" is no IPv6 address') from None
    return (str(address.ipv4_mapped or address),)


def _name_or_ipv4(host: str) -> tuple[str, ...]:
    name = _ascii(host).removesuffix(".").lower()
    labels = name.split(".")
    if len(name) > _HOST_BYTES_MAX or not all(map(_LABEL.fullmatch, labels)):
        raise _bad("a host name is labels of 1 to 63 letters, digits, - and _ with dots between, 253 bytes at most")
    if _NUMERIC.fullmatch(labels[-1]):  # no top-level domain is a number, so this is read as an address or not at all
        return (_ipv4(labels),)
    if labels[-1] == "localhost":
        return "127.0.0.1", "::1"
    return ()


def _ascii(host: str) -> str:
    """Return the host as it goes into DNS. Call it before looking for an IPv4 address, because it turns full-width
    digits and dots into ASCII."""
    if host.isascii():
        return host
    try:
        return host.encode("idna").decode()
    except UnicodeError:
        raise _bad(f'"{host[:60]}" is no internationalised host name (IDNA)') from None


def _ipv4(labels: list[str]) -> str:
    """Return an address as inet_aton reads it: one to four numbers, of which the last fills the rest of 32 bits."""
    refusal = _bad(f'"{".".join(labels)[:60]}" is no IPv4 address, and no host name ends in a number')
    if len(labels) > 4:
        raise refusal
    numbers: list[int] = []
    for label in labels:
        match = _NUMBER.fullmatch(label)
        if match is None or len(label) > 20:
            raise refusal
        base = {1: 16, 2: 8, 3: 10}[match.lastindex or 0]
        numbers.append(int(match[match.lastindex or 0] or "0", base))
    *heads, last = numbers
    if any(number > 255 for number in heads) or last >= 256 ** (5 - len(numbers)):
        raise refusal
    value = last
    for place, number in enumerate(heads):
        value += number << (24 - 8 * place)
    return str(IPv4Address(value))


def _read_timeout(value: object) -> int:
    timeout_ms = read_duration(value)
    if not TIMEOUT_MIN_MS <= timeout_ms <= TIMEOUT_MAX_MS:
        raise _bad(f"a push may take 100ms to 5m, got {render_duration(timeout_ms)}")
    return timeout_ms


def _read_method(value: object) -> str:
    try:
        return read_choice(value, METHODS)
    except Fault as fault:
        raise _bad(f"{fault.detail}; a delivery carries a body, and the other methods have none") from None


def _read_secret(value: object) -> str:
    """Return the signing secret of a topic, in the notation of Standard Webhooks."""
    if type(value) is not str:
        raise wrong_type("a string", value)
    try:
        if not value.startswith(SECRET_PREFIX):
            raise ValueError
        size = len(binascii.a2b_base64(value.removeprefix(SECRET_PREFIX), strict_mode=True))
    except ValueError:
        size = -1
    if not SECRET_BYTES_MIN <= size <= SECRET_BYTES_MAX:
        # The answer does not repeat the secret, because answers end up in logs.
        raise _bad(f'a secret is "{SECRET_PREFIX}" and the base64 of {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes')
    return value


def _refuse_secret(value: object) -> None:
    raise Fault("unknown-field", "a secret is its topic's, not one message's; set it with PUT /v1/topics/{topic}")


def read_message_target(value: object, limits: Limits) -> Target:
    """Return the target of one message."""
    fields = Fields(
        {
            "url": lambda text: read_url(text, limits),
            "method": _read_method,
            "headers": read_headers,
            "timeout": _read_timeout,
            "secret": _refuse_secret,
        },
        required={"url": 'url is required, such as "https://example.com/hook"'},
        read_only=("secret_set",),
    )
    sent = read_inner(value, fields)
    return Target(
        url=sent["url"],
        method=sent.get("method", "POST"),
        headers=sent.get("headers"),
        timeout_ms=sent.get("timeout"),
    )


def read_topic_target(value: object, limits: Limits, *, whole: bool) -> dict[str, Any]:
    """Return the sent fields of a topic's target, under `Target`'s names.

    `whole` means a PUT: it needs a url, and a field that is null counts as left out. Without `whole` a null stays in
    the result, and takes that field away from the topic.
    """
    fields = Fields(
        {
            "url": lambda text: read_url(text, limits),
            "method": or_null(_read_method),
            "headers": or_null(read_headers),
            "timeout": or_null(_read_timeout),
            "secret": or_null(_read_secret),
        },
        required={"url": 'url is required, such as "https://example.com/hook"'} if whole else {},
        read_only=("secret_set",),
    )
    sent = read_inner(value, fields)
    if "timeout" in sent:
        sent["timeout_ms"] = sent.pop("timeout")
    return {name: item for name, item in sent.items() if item is not None} if whole else sent


def show_target(target: Target) -> dict[str, Any]:
    """Return a target as answers show it, without its secret. `timeout` is null if the target has none."""
    return {
        "url": target.url,
        "method": target.method,
        "headers": target.headers or {},
        "timeout": None if target.timeout_ms is None else render_duration(target.timeout_ms),
    }


#: The target of one message. A topic's also has a secret.
TARGET_SCHEMA: Final[schema.Schema] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["url"],
    "properties": {
        "url": schema.text(URL_BYTES_MAX, format="uri", description="An http or https address that is allowed."),
        "method": {**schema.choice(METHODS), "default": METHODS[0], "description": "A webhook carries a body."},
        "headers": schema.said(schema.HEADERS, "Sent with each webhook; those of the message win."),
        "timeout": schema.duration(
            "100ms to 5m", "From connecting to the end of the answer; `[push] timeout_ms` where it is not said."
        ),
    },
}

#: The kind of `target`: where a message is pushed instead of to its topic's target.
TARGET: Final = Kind(
    lambda value, now_ms, limits: read_message_target(value, limits),
    dict[str, Any],
    URL_BYTES_MAX + HEADER_BYTES_MAX + 1024,
    TARGET_SCHEMA,
)
