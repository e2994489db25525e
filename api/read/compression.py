"""Compressed bodies: of requests, whose bytes nobody has checked yet, and of answers, for clients that take them.

A short body may stand for gigabytes. So a body is decompressed only until it exceeds its bound. The library for zstd
has no such bound, so it gets a few bytes at a time. One step makes 2 MB at most: a block of 128 KB takes 4 bytes at
least.
"""

import re
import zlib
from typing import Final

import zstandard

from api.port.problem import Problem

#: Names of Content-Encoding that are taken, the best first.
ENCODINGS: Final = ("zstd", "gzip")
#: A body has at most so many parts, each compressed for itself. Many tiny parts would take long.
PARTS_MAX: Final = 64
_STEP_BYTES: Final = 64
_WINDOW_BYTES_MAX: Final = 8 << 20
"""RFC 8878 asks for this much of every decoder."""
_GZIP: Final = 31
"""zlib's number for the format of gzip, with the largest window."""
_GZIP_LEVEL, _ZSTD_LEVEL = 1, 3
_WISH: Final = re.compile(r"\s*([\w*-]+)\s*(?:;\s*q\s*=\s*([01](?:\.\d{0,3})?)\s*)?", re.ASCII)


class TooLarge(Exception):
    """The decompressed body has more bytes than allowed."""


def decompressed(data: bytes, encoding: str, most: int) -> bytes:
    """Return the body that `data` stands for. `encoding` is one of ENCODINGS. Raises TooLarge for more than `most`
    bytes, and `malformed-request` if it is not compressed in that way, or cut short."""
    try:
        return _from_gzip(data, most) if encoding == "gzip" else _from_zstd(data, most)
    except (zlib.error, zstandard.ZstdError) as error:
        raise Problem("malformed-request", f"the body is not {encoding}: {error}") from None


def _from_gzip(data: bytes, most: int) -> bytes:
    parts: list[bytes] = []
    while data:
        _check_parts(len(parts))
        part = zlib.decompressobj(_GZIP)
        text = part.decompress(data, most + 1)
        if len(text) > most:
            raise TooLarge
        if not part.eof:
            raise _cut_short("gzip")
        parts.append(text)
        most -= len(text)
        data = part.unused_data.lstrip(b"\0")  # the end may be padded
    return b"".join(parts)


def _from_zstd(data: bytes, most: int) -> bytes:
    reader = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES_MAX)
    found, at, parts = bytearray(), 0, 0
    while at < len(data):
        _check_parts(parts)
        part = reader.decompressobj()
        while not part.eof:
            if at >= len(data):
                raise _cut_short("zstd")
            found += part.decompress(data[at : at + _STEP_BYTES])
            at = min(at + _STEP_BYTES, len(data))
            if len(found) > most:
                raise TooLarge
        at -= len(part.unused_data)
        parts += 1
    return bytes(found)


def _check_parts(parts: int) -> None:
    if parts >= PARTS_MAX:
        raise Problem("malformed-request", f"the body has more than {PARTS_MAX} compressed parts; send one")


def _cut_short(encoding: str) -> Problem:
    return Problem("malformed-request", f"the body is not {encoding}: it is cut short")


def accepted(header: str) -> str | None:
    """Return the encoding for an answer to a request with this Accept-Encoding. None if the answer stays as it is. Of
    encodings that the client likes equally, zstd is taken."""
    wishes: dict[str, float] = {}
    for text in header.lower().split(","):
        wish = _WISH.fullmatch(text)
        if wish is not None:
            wishes[wish[1]] = 1.0 if wish[2] is None else float(wish[2])
    best = max(ENCODINGS, key=lambda encoding: wishes.get(encoding, wishes.get("*", 0.0)))
    liked = wishes.get(best, wishes.get("*", 0.0))
    return best if liked > 0 and liked >= wishes.get("identity", 0.0) else None


def compressed(data: bytes, encoding: str) -> bytes:
    """Return `data` in this encoding, quickly rather than as short as can be."""
    if encoding == "gzip":
        writer = zlib.compressobj(_GZIP_LEVEL, wbits=_GZIP)
        return writer.compress(data) + writer.flush()
    return zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(data)
