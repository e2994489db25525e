"""Addresses of nodes, as users write them: `http://HOST:PORT`, several with commas between."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

#: The port of an address that names none.
PORT: Final = 80


class BadAddress(ValueError):
    """A text that is no address of a node. It says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a node listens for HTTP. `host` has no brackets, also if it is an IPv6 address."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """The address as `http://HOST:PORT`, without a slash at its end."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    def __str__(self) -> str:
        return self.url


def parse_address(text: str) -> Address:
    """One address. `http://` may be left out. Raises BadAddress."""
    text = text.strip()
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        host, port = parts.hostname, parts.port
    except ValueError as error:  # a port that is no number, or brackets that do not match
        raise BadAddress(f"{text!r} is not an address: {error}") from None
    wrong = (
        f"the scheme is {parts.scheme!r}, and nodes speak http"
        if parts.scheme != "http"
        else "it names no host"
        if not host
        else "it has a user or password, and nodes take none"
        if "@" in parts.netloc
        else "something stands behind the port"
        if parts.path.strip("/") or parts.query or parts.fragment
        else "no server listens on port 0"
        if port == 0
        else ""
    )
    if wrong or not host:
        raise BadAddress(f"{text!r} is not an address of a node: {wrong}; give http://HOST:PORT")
    return Address(host, PORT if port is None else port)


def parse_addresses(texts: str | Iterable[str]) -> tuple[Address, ...]:
    """One or several addresses: a text with commas, or several such texts. One that comes again is kept once.

    Raises BadAddress, also if there is none.
    """
    texts = [texts] if isinstance(texts, str) else list(texts)
    parts = [part.strip() for text in texts for part in text.split(",")]
    if not any(parts):
        raise BadAddress("no address is given; give http://HOST:PORT, several with commas between")
    if not all(parts):
        raise BadAddress(f"{','.join(texts)!r} has a comma without an address beside it")
    return tuple(dict.fromkeys(map(parse_address, parts)))
