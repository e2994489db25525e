"""Cuts the bytes that arrive on a connection into frames (frame.py)."""

from __future__ import annotations

from collections.abc import Callable

from replication.wire.frame import HEADER, META_BYTES_MAX, FrameRefused


def _ignore(_meta: bytes, _blob: memoryview, _crc: int) -> None:
    return


class FrameReader:
    """Cuts a byte stream into frames. It uses one fixed buffer, and a second one for frames that are larger than it.

    `on_frame(meta, blob, crc)` is called for each frame, in order. `blob` is only valid during the call. `limit` is the
    largest frame that is allowed now, in bytes. The owner gives a small limit first, and a larger one to `trust` when
    the peer's hello was accepted. So a stranger cannot make the node allocate much.
    """

    BUFFER_BYTES = 256 * 1024
    SPARE_BYTES = 5 * 1024 * 1024
    """The second buffer is kept for later frames up to this size: fresh memory costs more than the copy into it."""

    def __init__(self, on_frame: Callable[[bytes, memoryview, int], None], limit: int) -> None:
        self.limit = limit
        self._on_frame = on_frame
        self._buffer = memoryview(bytearray(min(limit, self.BUFFER_BYTES)))
        self._end = 0
        self._large: memoryview | None = None
        self._spare = memoryview(b"")
        self._filled = 0

    def trust(self, limit: int) -> None:
        """Allow frames of up to `limit` bytes from now on. May be called from `on_frame`."""
        buffer = memoryview(bytearray(self.BUFFER_BYTES))
        buffer[: self._end] = self._buffer[: self._end]
        self.limit, self._buffer = limit, buffer

    def close(self) -> None:
        """Free the buffers. Call it when no more bytes come.

        A reader and its owner refer to each other. So the buffers would stay until the garbage collector runs, and
        strangers would fill the memory meanwhile.
        """
        self._buffer = self._spare = memoryview(b"")
        self._large, self._on_frame = None, _ignore

    def space(self) -> memoryview:
        """The part of the buffer into which the caller puts the next bytes. Never empty."""
        if self._large is not None:
            return self._large[self._filled :]
        return self._buffer[self._end :]

    def received(self, count: int) -> None:
        """Take `count` bytes that were put into `space()`, and call `on_frame` for each whole frame. Raises
        FrameRefused.
        """
        if self._large is not None:
            self._filled += count
            if self._filled == len(self._large):
                frame, self._large = self._large, None
                self._emit(frame)
                if len(frame) <= self.SPARE_BYTES and len(frame) > len(self._spare):
                    self._spare = frame
            return
        self._end += count
        start = 0
        while self._end - start >= HEADER.size:
            size = self._size_at(start)
            if size > self._end - start:
                if size > len(self._buffer):
                    self._grow(start, size)
                    return
                break
            self._emit(self._buffer[start : start + size])
            start += size
        if start:
            rest = self._end - start
            self._buffer[:rest] = bytes(self._buffer[start : self._end])
            self._end = rest

    def _size_at(self, start: int) -> int:
        size, meta, _crc = HEADER.unpack_from(self._buffer, start)
        if not HEADER.size + 1 <= size <= self.limit or not 1 <= meta <= min(size - HEADER.size, META_BYTES_MAX):
            raise FrameRefused(f"frame of {size} bytes with {meta} of meta; the limit is {self.limit}")
        return int(size)

    def _grow(self, start: int, size: int) -> None:
        self._filled = self._end - start
        self._large = self._spare[:size] if size <= len(self._spare) else memoryview(bytearray(size))
        self._large[: self._filled] = self._buffer[start : self._end]
        self._end = 0

    def _emit(self, frame: memoryview) -> None:
        _size, meta, crc = HEADER.unpack_from(frame)
        body = HEADER.size + meta
        self._on_frame(bytes(frame[HEADER.size : body]), frame[body:], crc)
