"""Compressed bodies: each way there and back, in parts, and what is longer, damaged or hostile."""

import gzip
import zlib

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from api.port.problem import Problem
from api.read.compression import ENCODINGS, PARTS_MAX, TooLarge, accepted, compressed, decompressed

PACK = {"gzip": gzip.compress, "zstd": zstandard.ZstdCompressor().compress}


@given(st.sampled_from(ENCODINGS), st.lists(st.binary(max_size=300).map(lambda text: text * 40), max_size=5))
def test_a_body_comes_back(encoding: str, parts: list[bytes]) -> None:
    """Also from several parts, each compressed for itself. A bound of its own length is enough, one less is not."""
    body = b"".join(parts)
    data = b"".join(map(PACK[encoding], parts))
    assert decompressed(data, encoding, len(body)) == body
    assert decompressed(compressed(body, encoding), encoding, len(body)) == body
    if body:
        with pytest.raises(TooLarge):
            decompressed(data, encoding, len(body) - 1)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_body_that_is_cut_or_damaged_is_refused_by_name(encoding: str) -> None:
    """Cut anywhere but at an end, changed anywhere, of another kind, or with something behind it."""
    body = bytes(range(256)) * 9
    data = PACK[encoding](body)
    for length in range(1, len(data)):
        with pytest.raises(Problem, match=rf"malformed-request: the body is not {encoding}"):
            decompressed(data[:length], encoding, 1 << 20)
    for other in (b"\0" + data, b"{}", data + b"{}", PACK["gzip" if encoding == "zstd" else "zstd"](body)):
        with pytest.raises(Problem, match="malformed-request"):
            decompressed(other, encoding, 1 << 20)
    assert decompressed(b"", encoding, 10) == b""


def test_gzip_says_if_its_content_changed() -> None:
    """Its checksum covers the content."""
    data = bytearray(gzip.compress(b"x" * 500))
    data[-8] ^= 1
    with pytest.raises(Problem, match="incorrect data check"):
        decompressed(bytes(data), "gzip", 1 << 20)
    assert decompressed(gzip.compress(b"x") + bytes(7), "gzip", 9) == b"x"  # padded, as tape drives left it


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_bomb_is_left_when_it_exceeds_the_bound(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gigabyte in a few kilobytes: little more than the bound is ever made of it."""
    made = 0
    zeros = bytes(1 << 20)
    if encoding == "gzip":
        writer = zlib.compressobj(9, wbits=31)
        data = b"".join([*(writer.compress(zeros) for _ in range(1024)), writer.flush()])
    else:
        zstd = zstandard.ZstdCompressor().compressobj()
        data = b"".join([*(zstd.compress(zeros) for _ in range(1024)), zstd.flush()])
    assert len(data) < 2 << 20

    real = zstandard.ZstdDecompressor

    class Counted:
        """Counts what is made of a body."""

        def __init__(self, max_window_size: int) -> None:
            self._part = real(max_window_size=max_window_size).decompressobj()
            self.eof, self.unused_data = False, b""

        def decompressobj(self) -> "Counted":
            return self

        def decompress(self, data: bytes) -> bytes:
            nonlocal made
            found = self._part.decompress(data)
            made += len(found)
            return found

    monkeypatch.setattr(zstandard, "ZstdDecompressor", Counted)
    with pytest.raises(TooLarge):
        decompressed(data, encoding, 1 << 20)
    assert made <= 3 << 20


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_many_tiny_parts_are_refused(encoding: str) -> None:
    """Each of them costs more than its bytes."""
    part = PACK[encoding](b"")
    assert decompressed(part * PARTS_MAX, encoding, 10) == b""
    with pytest.raises(Problem, match=f"more than {PARTS_MAX} compressed parts"):
        decompressed(part * (PARTS_MAX + 1), encoding, 10)


def test_a_window_that_takes_much_memory_is_refused() -> None:
    """128 MiB, which a header of a few bytes may ask for."""
    parameters = zstandard.ZstdCompressionParameters(window_log=27)
    writer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    data = writer.compress(bytes(range(200))) + writer.flush()
    with pytest.raises(Problem, match="too much memory"):
        decompressed(data, "zstd", 1 << 20)


@pytest.mark.parametrize(
    ("header", "encoding"),
    [
        ("", None),
        ("gzip", "gzip"),
        ("GZIP", "gzip"),
        ("zstd", "zstd"),
        ("gzip, zstd", "zstd"),
        ("gzip;q=1.0, zstd;q=0.9", "gzip"),
        ("gzip ; q=0.5 , identity;q=0.9", None),
        ("gzip;q=0", None),
        ("gzip;q=0, *", "zstd"),
        ("*", "zstd"),
        ("*;q=0", None),
        ("br, deflate", None),
        ("br, gzip;q=0.001", "gzip"),
        ("gzip;q=2", None),
        ("gzip;level=3", None),
        (",,;;q, \x00", None),
    ],
)
def test_what_a_client_accepts(header: str, encoding: str | None) -> None:
    """The one it likes best, zstd of equals; what cannot be read is no wish."""
    assert accepted(header) == encoding
