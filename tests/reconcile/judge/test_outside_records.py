"""Files of receipts: the same rows from Parquet, JSON and CSV; what cannot be read is counted, or refused by name."""

import gzip
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ledger.bucket import RECEIPT
from reconcile.files.problem import DataRefused
from reconcile.judge.job import Request, reconcile
from reconcile.judge.outside_records import Said, read_said
from reconcile.judge.shuffle import gather
from storage.format.message_id import encode_ids
from storage.format.position import HOUR_MS
from storage.record.delivery_record import TERM_BEGUN
from tests.reconcile.directories import NOW, log_deliveries, make_node, term_row
from tests.reconcile.judge.test_job import COUNT, DONE, ENTRIES, FIRST_DUE_MS, TERM, account

pytestmark = pytest.mark.usefixtures("no_page")

AT_MS = NOW + 2_000
HOMES = np.array([NOW // HOUR_MS << 40 | index for index in range(COUNT)], np.uint64)
DUE = NOW + FIRST_DUE_MS + np.arange(COUNT, dtype=np.uint64)
IDS = [text.decode() for text in encode_ids(0, HOMES, DUE * np.uint64(2654435761)).tolist()]
ROWS: list[dict[str, Any]] = [
    {"id": IDS[0], "at_ms": AT_MS, "term": TERM, "attempt": 1, "status": 204},
    {"id": IDS[2].lower(), "at_ms": AT_MS + 1, "term": TERM, "attempt": 2, "status": 200},
    {"id": IDS[4], "at_ms": AT_MS + 2, "term": TERM, "attempt": 1, "status": 500},
    {"id": "no id", "at_ms": AT_MS + 3, "term": TERM, "attempt": 1, "status": 200},
]


def rows_of(said: Said) -> list[tuple[int, ...]]:
    """(number, at_ms, term, attempt) of what was brought to buckets."""
    rows = gather(said.pieces, RECEIPT)
    return sorted((int(row["home"]) & 0xFFFF, int(row["at_ms"]), int(row["term"]), int(row["attempt"])) for row in rows)


def written(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """The rows as a file of the kind that its suffix says."""
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(list(rows)), path)
    elif path.suffix == ".csv":
        lines = [",".join(rows[0]), *(",".join(str(value) for value in row.values()) for row in rows)]
        path.write_text("\n".join(lines) + "\n")
    else:
        text = "".join(json.dumps(row) + "\n" for row in rows).encode()
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


@pytest.mark.parametrize("name", ["r.parquet", "r.csv", "r.json", "r.ndjson.gz"])
def test_every_format_says_the_same(spark: Any, tmp_path: Path, name: str) -> None:
    """Two receipts, one refused by its consumer, one that is no id; and the times they bear."""
    said = read_said(spark, [written(tmp_path / name, ROWS)], "receipts", tmp_path, 0)
    assert rows_of(said) == [(0, AT_MS, TERM, 1), (2, AT_MS + 1, TERM, 2)]
    assert (said.rows, said.counts, said.examples) == (4, {"refused": 1, "malformed": 1}, ["no id"])
    assert (said.from_ms, said.until_ms) == (AT_MS, AT_MS + 1)


def test_times_may_be_text_fractions_or_timestamps(spark: Any, tmp_path: Path) -> None:
    """RFC 3339, milliseconds with a fraction as a receiver's log has them, and Parquet's own kind."""
    moment = datetime.fromtimestamp(AT_MS / 1000, UTC)
    files = [
        written(tmp_path / "a.json", [{"id": IDS[1], "at": moment.isoformat()}]),
        written(tmp_path / "b.log", [{"id": IDS[1], "received_ms": AT_MS + 0.25, "attempt": None}]),
        written(tmp_path / "c.parquet", [{"id": IDS[1], "at": moment}]),
        written(tmp_path / "d.csv", [{"id": IDS[1], "at": "soon"}]),
    ]
    said = read_said(spark, files, "receipts", tmp_path, 0)
    assert [row[1] for row in rows_of(said)] == [0, AT_MS, AT_MS, AT_MS]


def test_a_line_that_is_not_json_is_malformed(spark: Any, tmp_path: Path) -> None:
    """It counts, as a row without an id does."""
    path = tmp_path / "r.json"
    path.write_text(json.dumps({"id": IDS[0]}) + "\n{broken\n{}\n")
    said = read_said(spark, [path], "receipts", tmp_path, 0)
    assert (said.rows, said.counts) == (3, {"malformed": 2})


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [("r.csv", "message,at\nx,1\n", "no column id"), ("r.xml", "<a/>", "not a format"), ("gone.csv", None, "no such")],
)
def test_what_cannot_be_receipts_is_refused(
    spark: Any, tmp_path: Path, name: str, content: str | None, said: str
) -> None:
    """The message names the file and what is wrong with it."""
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    with pytest.raises(DataRefused, match=said) as refused:
        read_said(spark, [path], "receipts", tmp_path, 0)
    assert name in str(refused.value)


def test_receipts_and_acknowledgements_reach_their_messages(spark: Any, tmp_path: Path) -> None:
    """With Spark as without: what a consumer did not get is lost, what a producer was promised and nobody has, too."""
    make_node(tmp_path / "nodes" / "n1", ENTRIES)
    log_deliveries(tmp_path / "nodes" / "n1", term_row(TERM_BEGUN, TERM, NOW), account(DONE))
    never_got, hour_of_none = DONE[3], NOW // HOUR_MS + 7
    got = [{"id": IDS[at], "at_ms": int(DUE[at]) + 3} for at in DONE if at != never_got]
    got += [got[0], {"id": IDS[0], "at_ms": NOW}, {"id": IDS[0], "at_ms": NOW + 6 * HOUR_MS}]
    stranger = encode_ids(0, np.array([hour_of_none << 40], np.uint64), np.array([1], np.uint64))[0].decode()
    promised = [{"id": text} for text in [*IDS, stranger, stranger]]
    request = Request(
        [tmp_path / "nodes"],
        tmp_path / "out",
        receipts=[written(tmp_path / "got.csv", got)],
        acknowledged=[written(tmp_path / "promised.parquet", promised)],
    )
    document = reconcile(spark, request)
    assert [check for check in document["checks"] if not check["held"]] == []
    assert document["lost"] == {"no_trace": 0, "never_received": 1, "not_found": 1, "never_handed_over": 0}
    assert (document["receipts"]["matched"], document["receipts"]["duplicate_row"]) == (len(DONE) + 1, 1)
    assert (document["acknowledged"]["unknown_id"], document["acknowledged"]["duplicate_row"]) == (1, 1)
    assert document["promises_broken"] == ["2 messages lost"]
    lost = pq.read_table(tmp_path / "out" / "repairs").to_pylist()
    assert {(row["action"], row["reason"], row["id"]) for row in lost} == {
        ("redeliver", "never_received", IDS[never_got]),
        ("redeliver", "not_found", stranger),
    }
    assert pq.read_table(tmp_path / "out" / "receipts_unmatched").column("id").to_pylist() == [stranger]


def test_receipts_without_times_are_told_to_cover_none(spark: Any, tmp_path: Path) -> None:
    """What nobody got cannot be told from what was received at another time: nothing is lost by it, and it is said."""
    make_node(tmp_path / "nodes" / "n1", ENTRIES)
    log_deliveries(tmp_path / "nodes" / "n1", term_row(TERM_BEGUN, TERM, NOW), account(DONE))
    got = written(tmp_path / "got.csv", [{"id": IDS[DONE[0]]}, {"id": IDS[DONE[1]]}])
    document = reconcile(spark, Request([tmp_path / "nodes"], tmp_path / "out", receipts=[got]))
    (problem,) = document["problems"]
    assert (problem["kind"], problem["file"], problem["rows"]) == ("timeless", "receipts", 2)
    assert (document["receipts"]["matched"], document["classes"]["lost"]) == (2, 0)
