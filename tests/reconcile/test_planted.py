"""What was planted is found: every message of every class, flag and cause, with the right words, and no others.

Here among a hundred thousand; `python -m bench.reconcile prove` plants 1,000 of each in ten million.
"""

from pathlib import Path
from typing import Any

import pytest

from bench.dataset.make import Planted, make
from bench.reconcile import prove
from reconcile.judge.job import Request, reconcile
from reconcile.output.read_columns import duplicates_columns, ledger_columns

pytestmark = pytest.mark.usefixtures("no_page")

MESSAGES, EACH, KILLS = 100_000, 12, 4


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    """Three node directories in which twelve of each story are planted."""
    root = tmp_path_factory.mktemp("planted")
    return make(root, messages=MESSAGES, each=EACH, per_hour=60_000, kills=KILLS)


def test_all_that_was_planted_is_found_and_nothing_else(planted: Planted, tmp_path: Path) -> None:
    """From the nodes' files alone, in this process."""
    document = reconcile(None, Request(planted.directories, tmp_path / "out"))
    assert [check for check in document["checks"] if not check["held"]] == []
    assert document["scheduled"] == planted.messages
    told = ledger_columns(tmp_path / "out", remarkable=True), duplicates_columns(tmp_path / "out")
    assert planted.differences(*told, receipts=False) == []


def test_with_receipts_and_acknowledgements_on_spark(planted: Planted, spark: Any, tmp_path: Path) -> None:
    """Those that consumers never got, and those that no node ever had, are found too, and no others."""
    document, differences = prove(spark, planted, tmp_path)
    assert differences == []
    assert document["lost"] == {
        "no_trace": EACH,
        "never_received": EACH,
        "not_found": EACH,
        "never_handed_over": 0,
    }
    assert document["receipts"]["matched"] == document["receipts"]["rows"] == len(planted.receipts)
    assert len(document["term_changes"]) == KILLS


def test_the_words_of_every_class_and_cause_occur(planted: Planted, tmp_path: Path) -> None:
    """The plan leaves out nothing that the ledger has a word for, but what only an operator's wish makes lost."""
    document = reconcile(None, Request(planted.directories, tmp_path / "out"))
    for group in ("classes", "causes", "late_causes"):
        assert [word for word, count in document[group].items() if not count] == []
    assert [word for word, count in document["flags"].items() if not count] == ["not_received"]
    assert document["promises_broken"]
