"""Checks of the catalog's file before LMDB maps it: the file holds all its pages, and the pages hold together.

LMDB reads through a mapping. A read past the end of the file is signal SIGBUS, which ends a process without a message.
A page that differs from its tree may fail an assertion, which ends the process with a message of LMDB's. So plain reads
check the file first. A file that was cut short raises Corrupt with its name at every open. Only verify reads all pages
in use.

The parts of LMDB's format that are read here (all integers little endian, LMDB 0.9 on a 64-bit machine):
```
page            16 bytes: number u64, pad u16, flags u16 (branch 1, leaf 2, overflow 4, meta 8), lower u16, upper u16
  meta          magic u32, version u32, address u64, map size u64, tree of free pages, main tree, last page u64, txn u64
  branch, leaf  (lower - 16) / 2 offsets u16 of nodes
  node          low u16, high u16, flags u16, key size u16, key; a branch's child is low | high << 16 | flags << 32
                a leaf's data follows, low | high << 16 bytes of it; with flag 1 its overflow page u64 follows instead,
                with flag 2 the data is a tree
  overflow      its header has the count of its pages, u32, in place of lower and upper
tree            page size u32, flags u16, depth u16, 4 counts u64, root page u64
free pages      a row for each transaction that freed some: count u64, then the pages
```
The last page that a meta page names may lie past the end of a sound file. LMDB can take a page, need it no more in the
same transaction, and never write it. It lists such a page as free. So each page that the file lacks must be free.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from storage.file.disk import Disk
from storage.format.rows import Corrupt

MAP_SIZE: Final = 1 << 40
"""The largest size of the catalog. It takes address space, not memory or disk."""

_HEADER: Final = struct.Struct("<QHHHH")
_META: Final = struct.Struct("<IIQQ48s48sQQ")
_TREE: Final = struct.Struct("<IHHQQQQQ")
_NODE: Final = struct.Struct("<HHHH")
_PAGE_NUMBER: Final = struct.Struct("<Q")
_MAGIC: Final = 0xBEEFC0DE
_VERSION: Final = 1
_BRANCH, _LEAF, _OVERFLOW, _META_PAGE = 1, 2, 4, 8
_BIG, _SUBTREE = 1, 2
"""Flags of a node in a leaf. Its data stands in overflow pages, or is another tree."""
_NO_PAGE: Final = (1 << 64) - 1
_PAGE_SIZES: Final = tuple(1 << bits for bits in range(9, 17))
_DEPTH_MAX: Final = 32
_LOOKS_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class _Meta:
    """A meta page of LMDB, which describes one committed transaction."""

    page_size: int
    free: bytes
    """The tree of free pages."""
    main: bytes
    last_page: int
    transaction: int


def require_begun(path: Path, disk: Disk) -> None:
    """Raise Corrupt if data.mdb is missing or empty, because LMDB would then make a new empty catalog. Raises
    DiskFailed if the file cannot be read."""
    try:
        fd = disk.open_read(path)
    except FileNotFoundError:
        raise Corrupt(str(path), 0, "catalog", "missing", "there") from None
    try:
        if not disk.size(fd):
            raise Corrupt(str(path), 0, "length", "0, cut short", "two meta pages")
    finally:
        disk.close(fd)


def require_sound(path: Path, disk: Disk) -> None:
    """Raise Corrupt if a page of data.mdb in use differs from its tree, for LMDB would end the process.

    Read all pages in use, but not the content of rows. No process may have the file open. A missing or empty file is
    fine. Raises DiskFailed if it cannot be read.
    """
    require_whole(path, disk)
    if not disk.exists(path):
        return
    fd = disk.open_read(path)
    try:
        _File(str(path), fd, disk).require_sound()
    finally:
        disk.close(fd)


def require_whole(path: Path, disk: Disk) -> None:
    """Raise Corrupt if data.mdb lacks a page in use, or is not an LMDB file.

    A missing or empty file is fine: LMDB was stopped before it began the file. A node may have the file open. If it
    commits meanwhile, the check starts again. Raises DiskFailed if the file cannot be read.
    """
    try:
        fd = disk.open_read(path)
    except FileNotFoundError:
        return
    try:
        for _ in range(_LOOKS_MAX):
            file = _File(str(path), fd, disk)
            try:
                file.require_whole()
            except Corrupt:
                if not file.overtaken():
                    raise
            else:
                return
        raise Corrupt(str(path), 0, "transaction", "another at each look", "one that stays")
    finally:
        disk.close(fd)


class _File:
    """One check of the file, against the newest transaction that the file has when the check begins."""

    def __init__(self, name: str, fd: int, disk: Disk) -> None:
        self._name = name
        self._fd = fd
        self._disk = disk
        self._meta: _Meta | None = None
        self._size = 0

    def require_whole(self) -> None:
        """Raise Corrupt if the file lacks a page in use."""
        self._size = self._disk.size(self._fd)
        if not self._size:
            return
        self._meta = meta = self._newest()
        self._size = self._disk.size(self._fd)  # after the meta page was read: a transaction's pages come before it
        length = (meta.last_page + 1) * meta.page_size
        if length > MAP_SIZE:
            raise Corrupt(self._name, 0, "last page", meta.last_page, f"one below {MAP_SIZE // meta.page_size}")
        if self._size >= length:
            return
        free = self._free_from(self._size // meta.page_size)
        used = next(page for page in range(meta.last_page, -1, -1) if page not in free)
        if (used + 1) * meta.page_size > self._size:
            needed = f"{(used + 1) * meta.page_size}, for page {used} of {meta.last_page} is in use"
            raise Corrupt(self._name, self._size, "length", f"{self._size}, cut short", needed)

    def require_sound(self) -> None:
        """Raise Corrupt if a page has another number or kind than its tree says, or names a page behind the last
        one."""
        self._size = self._disk.size(self._fd)
        if self._size:
            self._meta = meta = self._newest()
            for page, row, flags in self._rows(meta.main):
                if flags & _SUBTREE:
                    self._check_table(page, row)

    def overtaken(self) -> bool:
        """True if another transaction was committed since this check began, so that its pages may have changed."""
        return self._meta is not None and self._newest() != self._meta

    def _newest(self) -> _Meta:
        first = self._read_meta(0)
        second = self._read_meta(first.page_size)
        return max(first, second, key=lambda meta: meta.transaction)

    def _read_meta(self, offset: int) -> _Meta:
        data = self._disk.read(self._fd, _HEADER.size + _META.size, offset)
        if len(data) < _HEADER.size + _META.size:
            raise Corrupt(self._name, len(data) + offset, "LMDB meta page", "cut short", "two whole ones")
        _, _, flags, _, _ = _HEADER.unpack_from(data)
        magic, version, _, _, free, main, last_page, transaction = _META.unpack_from(data, _HEADER.size)
        page_size, *_ = _TREE.unpack(free)
        if not flags & _META_PAGE or magic != _MAGIC or version != _VERSION or page_size not in _PAGE_SIZES:
            found = f"magic {magic:08x}, version {version}, page size {page_size}"
            raise Corrupt(self._name, offset, "LMDB meta page", found, f"magic {_MAGIC:08x}, version {_VERSION}")
        return _Meta(page_size, free, main, last_page, transaction)

    def _free_from(self, first: int) -> set[int]:
        """The numbers of the free pages that are `first` or higher."""
        assert self._meta is not None
        free: set[int] = set()
        for page, row, _ in self._rows(self._meta.free):
            if len(row) % 8 or len(row) < 8:
                raise self._damaged(page, f"a list of {len(row)} bytes")
            count, *pages = struct.unpack(f"<{len(row) // 8}Q", row)
            free.update(each for each in pages[:count] if each >= first)
        return free

    def _check_table(self, page: int, tree: bytes) -> None:
        """Check all pages of a table's tree, which is given as a row of the main tree. A table holds no further
        tree."""
        if len(tree) != _TREE.size:
            raise self._damaged(page, f"a tree of {len(tree)} bytes")
        for inner, _, flags in self._rows(tree):
            if flags & _SUBTREE:
                raise self._damaged(inner, "a tree within a table")

    def _rows(self, tree: bytes) -> Iterator[tuple[int, bytes, int]]:
        """Yield (page, data, flags) of each row of a tree. Raises Corrupt for a page that differs from the tree."""
        _, _, depth, _, _, _, _, root = _TREE.unpack(tree)
        if root != _NO_PAGE:
            yield from self._rows_below(root, depth)

    def _rows_below(self, page: int, depth: int) -> Iterator[tuple[int, bytes, int]]:
        """Yield the rows below a page. `depth` is its height over the leaves, 1 for a leaf."""
        data = self._read(page, self._page_size)
        number, _, flags, lower, upper = _HEADER.unpack_from(data)
        kind = _BRANCH if depth > 1 else _LEAF
        placed = _HEADER.size < lower <= upper <= len(data)
        if number != page or flags != kind or not placed or not 0 < depth <= _DEPTH_MAX:
            raise self._damaged(page, f"number {number}, flags {flags:#x}, lower {lower}, upper {upper}, depth {depth}")
        for (at,) in struct.iter_unpack("<H", data[_HEADER.size : lower - lower % 2]):
            if at + _NODE.size > len(data):
                raise self._damaged(page, f"a node at {at}")
            low, high, node_flags, key_size = _NODE.unpack_from(data, at)
            size, start = low | high << 16, at + _NODE.size + key_size
            if kind == _BRANCH:
                yield from self._rows_below(size | node_flags << 32, depth - 1)
                continue
            end = start + (_PAGE_NUMBER.size if node_flags & _BIG else size)
            if end > len(data):
                raise self._damaged(page, f"a row that ends at {end}")
            row = data[start:end]
            yield page, self._overflow(_PAGE_NUMBER.unpack(row)[0], size) if node_flags & _BIG else row, node_flags

    def _overflow(self, page: int, size: int) -> bytes:
        """The bytes of a row that is too long for its page."""
        number, _, flags, _, _ = _HEADER.unpack_from(self._read(page, _HEADER.size))
        if number != page or flags != _OVERFLOW:
            raise self._damaged(page, f"number {number}, flags {flags:#x}")
        return self._read(page, _HEADER.size + size)[_HEADER.size :]

    @property
    def _page_size(self) -> int:
        assert self._meta is not None
        return self._meta.page_size

    def _read(self, page: int, size: int) -> bytes:
        """`size` bytes from the start of a page. Raises Corrupt if the file ends before."""
        assert self._meta is not None
        if page > self._meta.last_page or size > MAP_SIZE:
            raise self._damaged(page, f"of {size} bytes, the last page is {self._meta.last_page}")
        offset = page * self._page_size
        if offset + size > self._size:
            needed = f"{offset + size}, for page {page} is in use"
            raise Corrupt(self._name, self._size, "length", f"{self._size}, cut short", needed)
        return self._disk.read(self._fd, size, offset)

    def _damaged(self, page: int, found: str) -> Corrupt:
        return Corrupt(self._name, page * self._page_size, f"LMDB's page {page}", found, "as the tree has it")
