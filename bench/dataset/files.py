"""Writes the messages of a plan (planted_case.py) among any number of plain messages, as the directories of three
nodes.

It uses the storage layer's own types, checksums and catalog, an hour at a time, in arrays. The result differs from a
real directory only in that no cluster ran. Plain messages are due evenly over the hours, never within a change of
leaders. Each is handed over a few milliseconds later, leased, and settled at once.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from bench.dataset.nodes import CLUSTER_ID, NODES
from bench.dataset.planted_case import HOOKS, ORDERS, Terms
from storage.catalog.hour_lengths import HourLengths
from storage.format.array import I64, U64
from storage.format.chain import Heads
from storage.format.message_id import RANDOM_BITS
from storage.format.position import HOUR_MS, INDEX_BITS
from storage.format.rows import (
    HEADER_SIZE,
    MAGIC_INDEX,
    MAGIC_LOG,
    MAGIC_SETTLE,
    SETTLE,
    UNIT,
    UNIT_MOVED,
    FileHeader,
    put_rows,
    seal,
    take_rows,
)
from storage.format.states import DELIVERED, IS_OPEN, KEEPS_HOUR, LEASED
from storage.record.delivery_record import DELIVERED as DONE
from storage.record.delivery_record import (
    DELIVERY,
    END,
    PULL,
    PUSH,
    START,
)
from storage.record.record import HEADER, KIND_MESSAGE, RECORD_HEADER_SIZE, RECORD_VERSION, patch

_BODY: Final = 8
_RECORD: Final = np.dtype([("header", HEADER), ("body", "<u8")])
_LEASE_MS: Final = 30_000

Rows = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Quiet:
    """The due times of plain messages: `from_ms <= due < until_ms`, without spans around changes of leaders."""

    from_ms: int
    until_ms: int
    except_from_ms: I64
    except_until_ms: I64

    def dues(self, hour: int, count: int, chance: np.random.Generator) -> I64:
        """Return rising due times in this hour, [count]. A time within a change of leaders moves behind the change, or
        before it if the end of the change is in another hour."""
        begin_ms = max(hour * HOUR_MS, self.from_ms)
        length_ms = min((hour + 1) * HOUR_MS, self.until_ms) - begin_ms
        dues: I64 = begin_ms + np.arange(count) * length_ms // count
        if len(self.except_from_ms):
            span = np.maximum(self.except_from_ms.searchsorted(dues, "right") - 1, 0)
            inside = (dues >= self.except_from_ms[span]) & (dues < self.except_until_ms[span])
            behind_ms = self.except_until_ms[span] + 300
            to_ms = np.where(behind_ms < (hour + 1) * HOUR_MS, behind_ms, self.except_from_ms[span])
            dues[inside] = to_ms[inside] - 300 + np.sort(chance.integers(0, 300, int(inside.sum())))
        return dues


@dataclass(slots=True)
class Written:
    """The places and random bits that the planted units got: `position` and `random`, [u] each. `lengths` has the
    lengths of the files, by hour."""

    position: U64
    random: U64
    lengths: dict[int, HourLengths]


class HourWriter:
    """Writes one hour. The constructor assigns places to its planted units, and `write` writes its files."""

    def __init__(
        self, hour: int, plain: int, units: Rows, at: I64, created_ms: int, chance: np.random.Generator
    ) -> None:
        """Assign places in this hour to `plain` messages and to the planted ones. `at` has the ordinals, in `units`, of
        the planted units that belong to this hour. Places follow the order in which the units were made."""
        self.hour, self.plain, self.at = hour, plain, at
        self._chance = chance
        plain_ms = created_ms + np.arange(plain) * 1_000_000 // max(plain, 1)
        order = np.argsort(units["appended_ms"][at], kind="stable")
        self.at = at[order]
        behind = plain_ms.searchsorted(units["appended_ms"][self.at], "right")
        self.index: I64 = behind + np.arange(len(at))  # global_index of the planted ones
        there = np.ones(plain + len(at), np.bool_)
        there[self.index] = False
        self._plain_index = np.flatnonzero(there)
        self._plain_ms = plain_ms

    def write(
        self, root: Path, units: Rows, settles: Rows, deliveries: Rows, written: Written, quiet: Quiet, terms: Terms
    ) -> tuple[Rows, npt.NDArray[np.bool_]]:
        """Write the hour's files for the first node, and link them into the directories of the others. `settles` has
        the planned settle records of the planted units in this hour, `deliveries` the planned delivery records of this
        hour. Return the hour's delivery records, in order of time, and a boolean array: True for each record that a
        power cut took."""
        count = self.plain + len(self.at)
        dues = quiet.dues(self.hour, self.plain, self._chance)
        index = self._plain_index[self._chance.permutation(self.plain)]  # of the plain ones, in order of time
        at_ms = dues + self._chance.integers(1, 9, self.plain)
        random: U64 = self._chance.integers(1, 1 << RANDOM_BITS, count, dtype=np.uint64)
        random[self.index] = written.random[self.at]
        topic = np.where(index & 1, ORDERS, HOOKS).astype(np.uint32)
        folder = root / NODES[0] / "hours" / str(self.hour)
        folder.mkdir()
        rows = np.zeros(count, UNIT)
        rows["due_ms"][index], rows["topic"][index] = dues, topic
        self._write_log(folder, rows, random, units, written)
        led = terms.at(at_ms)
        term, node = terms.number[led], terms.node[led]
        settled = self._write_settles(folder, settles, index, at_ms, term, node, topic)
        self._link(root, folder)
        moved = int(np.count_nonzero(rows["flags"]))
        states = np.zeros(count, np.uint8)
        states[index] = DELIVERED
        in_order = settles[np.argsort(settles["at_ms"], kind="stable")]
        states[self._index_of(in_order["unit"])] = in_order["what"]
        kept, open_ = np.count_nonzero(KEEPS_HOUR[states]), np.count_nonzero(IS_OPEN[states])
        written.lengths[self.hour] = HourLengths(
            HEADER_SIZE + count * _RECORD.itemsize,
            HEADER_SIZE + count * UNIT.itemsize,
            HEADER_SIZE + settled * SETTLE.itemsize if settled else 0,
            count,
            int(kept),
            int(kept - open_),
            moved,
        )
        return self._hand_overs(deliveries, written, index, random, dues, at_ms, term, node, topic)

    def _index_of(self, unit: I64) -> I64:
        """Return the global_index of planted units of this hour."""
        order = np.argsort(self.at)
        found: I64 = self.index[order[self.at[order].searchsorted(unit)]]
        return found

    def _write_log(self, folder: Path, rows: Rows, random: U64, units: Rows, written: Written) -> None:
        """Write the files `log` and `index` of the hour."""
        here = units[self.at]
        for name in ("due_ms", "topic", "attempt"):
            rows[name][self.index] = here[name]
        moved = here["home"] != self.at
        rows["flags"][self.index[moved]] = UNIT_MOVED
        count = len(rows)
        rows["offset"] = HEADER_SIZE + np.arange(count) * _RECORD.itemsize
        rows["size"], rows["kind"] = _RECORD.itemsize, KIND_MESSAGE
        rows["global_index"] = np.arange(count)
        Heads().link(rows)
        seal(rows)
        records = np.zeros(count, _RECORD)
        header = records["header"]
        body = np.arange(count, dtype=np.uint64) | np.uint64(self.hour << 32)
        body[self.index] = here["body"]
        records["body"] = body
        asked_due_ms, created_ms = rows["due_ms"].copy(), np.zeros(count, np.int64)
        asked_due_ms[self.index] = here["asked_due_ms"]
        created_ms[self._plain_index], created_ms[self.index] = self._plain_ms, here["created_ms"]
        header["size"], header["version"], header["kind"] = _RECORD.itemsize, RECORD_VERSION, KIND_MESSAGE
        header["payload_crc"], header["body_len"] = crc32_of(body), _BODY
        header["random"], header["asked_due_ms"] = random, asked_due_ms
        self._patch(records, rows["topic"].copy(), created_ms)
        if moved.any():
            some = take_rows(records, self.index[moved])
            self._patch(
                some, here["topic"][moved], here["created_ms"][moved], written.position[here["home"][moved]],
                self.index[moved],
            )  # fmt: skip
            put_rows(records, self.index[moved], some)
        for name, magic, array in (("log", MAGIC_LOG, records), ("index", MAGIC_INDEX, rows)):
            with (folder / name).open("wb") as opened:
                opened.write(FileHeader(magic, 0, self.hour, CLUSTER_ID).encode())
                array.tofile(opened)

    def _patch(
        self, records: Rows, topic: Rows, created_ms: I64, homes: U64 | None = None, index: I64 | None = None
    ) -> None:
        count = len(records)
        patch(
            records.view(np.uint64), np.full(count, _RECORD.itemsize, np.uint32), group=0,
            hour=np.full(count, self.hour), global_index=np.arange(count) if index is None else index,
            topic=topic, created_ms=created_ms, homes=homes,
        )  # fmt: skip

    def _write_settles(
        self, folder: Path, planted: Rows, index: I64, at_ms: I64, term: I64, node: I64, topic: Rows
    ) -> int:
        """Write `settle`: a Lease and an end of each plain message, with the planted records between them by time."""
        rows = np.zeros(2 * self.plain, SETTLE)
        rows["global_index"] = np.repeat(index, 2)
        rows["what"][0::2], rows["what"][1::2] = LEASED, DELIVERED
        rows["at_ms"][0::2], rows["at_ms"][1::2] = at_ms, at_ms + 20
        rows["when"][0::2] = at_ms + _LEASE_MS
        rows["code"][1::2] = np.where(topic == HOOKS, 200, 0)
        rows["term"], rows["node"] = np.repeat(term, 2), np.repeat(node, 2)
        rows["attempt"] = 1
        order = np.argsort(planted["at_ms"], kind="stable")
        planted = planted[order]
        more = np.zeros(len(planted), SETTLE)
        more["global_index"] = self._index_of(planted["unit"])
        for name in ("what", "at_ms", "when", "code", "term", "node", "attempt"):
            more[name] = planted[name]
        rows, inserted = _inserted(rows, more, 2 * at_ms.searchsorted(planted["at_ms"]))
        plain = np.flatnonzero(~inserted)
        rows["previous"][plain[1::2]] = plain[0::2] + 1
        _link(rows, np.flatnonzero(inserted))
        seal(rows)
        if len(rows):
            with (folder / "settle").open("wb") as opened:
                opened.write(FileHeader(MAGIC_SETTLE, 0, self.hour, CLUSTER_ID).encode())
                rows.tofile(opened)
        return len(rows)

    def _hand_overs(
        self, planted: Rows, written: Written, index: I64, random: U64, dues: I64, at_ms: I64, term: I64, node: I64,
        topic: Rows,
    ) -> tuple[Rows, npt.NDArray[np.bool_]]:  # fmt: skip
        rows = np.zeros(2 * self.plain, DELIVERY)
        rows["home"] = np.repeat(np.uint64(self.hour << INDEX_BITS) + index.astype(np.uint64), 2)
        rows["random"] = np.repeat(random[index], 2)
        rows["kind"][0::2], rows["kind"][1::2] = START, END
        rows["at_ms"][0::2], rows["at_ms"][1::2] = at_ms, at_ms + 21
        rows["asked_due_ms"][0::2] = dues
        rows["tick"] = np.repeat(dues // 1000, 2)
        rows["took_ms"][1::2], rows["outcome"][1::2] = 21, DONE
        for name, values in (("term", term), ("node", node), ("topic", topic)):
            rows[name] = np.repeat(values, 2)
        rows["mode"] = np.repeat(np.where(topic == HOOKS, PUSH, PULL), 2)
        rows["code"][1::2] = np.where(topic == HOOKS, 200, 0)
        rows["attempt"] = 1
        more, lost = delivery_rows(planted, written)
        rows, inserted = _inserted(rows, more, 2 * at_ms.searchsorted(more["at_ms"]))
        zeros = np.zeros(len(rows), np.bool_)
        zeros[inserted] = lost
        return rows, zeros

    @staticmethod
    def _link(root: Path, folder: Path) -> None:
        for node in NODES[1:]:
            other = root / node / "hours" / folder.name
            other.mkdir()
            for file in folder.iterdir():
                os.link(file, other / file.name)


def delivery_rows(planted: Rows, written: Written) -> tuple[Rows, npt.NDArray[np.bool_]]:
    """Return the DELIVERY rows of planted records, in order of time, and a boolean array: True for each that a power
    cut took."""
    planted = planted[np.argsort(planted["at_ms"], kind="stable")]
    rows = np.zeros(len(planted), DELIVERY)
    named = planted["unit"] >= 0
    rows["home"][named] = written.position[planted["unit"][named]]
    rows["random"][named] = written.random[planted["unit"][named]]
    for name in (
        "at_ms",
        "asked_due_ms",
        "tick",
        "term",
        "topic",
        "attempt",
        "node",
        "code",
        "kind",
        "mode",
        "outcome",
    ):
        rows[name] = planted[name]
    return rows, planted["lost"].copy()


def _inserted(rows: Rows, more: Rows, before: I64) -> tuple[Rows, npt.NDArray[np.bool_]]:
    """Insert each `more[i]` into `rows` before the row `before[i]`; `before` is in rising order. Return the result, and
    a boolean array: True for each inserted row."""
    at = before + np.arange(len(more))
    inserted = np.zeros(len(rows) + len(more), np.bool_)
    inserted[at] = True
    order = np.empty(len(inserted), np.intp)
    order[at] = len(rows) + np.arange(len(more))
    order[~inserted] = np.arange(len(rows))
    joined = np.concatenate([part.view(np.dtype((np.void, rows.dtype.itemsize))) for part in (rows, more)])
    return joined.take(order).view(rows.dtype), inserted


def _link(rows: Rows, at: npt.NDArray[np.intp]) -> None:
    """Fill in `previous` of the settle records at these ordinals of `rows`: where the record before it of the same unit
    stands. No other rows are about these units."""
    unit = rows["global_index"][at]
    order = np.argsort(unit, kind="stable")
    ranked = at[order]
    same = np.zeros(len(at), np.bool_)
    same[1:] = unit[order][1:] == unit[order][:-1]
    before = np.where(same, np.concatenate([[0], ranked[:-1] + 1]) if len(at) else 0, 0)
    rows["previous"][ranked] = before


def _crc_tables() -> npt.NDArray[np.uint32]:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0xEDB88320), table >> 1)
    return table


def crc32_of(words: U64) -> npt.NDArray[np.uint32]:
    """Return zlib's CRC32 of each number's 8 bytes, little endian."""
    table = _crc_tables()
    crc = np.full(len(words), 0xFFFFFFFF, np.uint32)
    for byte in words.view(np.uint8).reshape(-1, 8).T:
        crc = table[(crc ^ byte) & np.uint32(0xFF)] ^ (crc >> np.uint32(8))
    inverted: npt.NDArray[np.uint32] = ~crc
    return inverted


assert _RECORD.itemsize == RECORD_HEADER_SIZE + _BODY
