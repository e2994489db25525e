"""Takes encoded frames apart again, for tests that look at the bytes."""

from replication.wire.frame import HEADER


def split(pieces: list[bytes]) -> tuple[bytes, memoryview, int]:
    """(meta, blob, checksum) of one encoded frame, as FrameReader hands them out."""
    data = b"".join(pieces)
    size, meta, crc = HEADER.unpack_from(data)
    assert size == len(data)
    return data[HEADER.size : HEADER.size + meta], memoryview(data)[HEADER.size + meta :], crc
