"""report.html shows every figure of report.json, stands alone, and leaves out nothing that it was given."""

import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ledger.columns import Cause, Flag, LateCause, Lost, MessageClass, word
from reconcile.report.page import CHANGES_DRAWN, render, write
from reconcile.report.palette import VARIABLES
from reconcile.report.words import CAUSES, CLASSES, FLAGS, LATE_CAUSES, LOST
from tests.reconcile.report.test_figures import EPOCH_MS, Again, Seen, figures

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """What a reader of the page gets: its text, its ids, what it refers to; fails on tags that do not match."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.ids: list[str] = []
        self.refers: list[str] = []
        self.labels: list[str] = []
        self.pictures = 0
        self._open: list[str] = []
        self.feed(html)
        assert not self._open, self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A tag opens."""
        given = {name: value or "" for name, value in attrs}
        self.pictures += tag == "svg"
        if tag not in VOID:
            self._open.append(tag)
        if "id" in given:
            self.ids.append(given["id"])
        if "aria-label" in given:
            self.labels.append(given["aria-label"])
        self.refers += [given[name] for name in ("href", "xlink:href", "src", "aria-labelledby") if name in given]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A tag that closes itself."""
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        """A tag closes: the one that was opened last."""
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Text, but for style and script."""
        if self._open and self._open[-1] not in ("style", "script"):
            self.words.append(data)

    @property
    def text(self) -> str:
        """All of it, in order, with single spaces."""
        return " ".join(" ".join(self.words).split())


def document(**more: Any) -> dict[str, Any]:
    """A small reconciliation: a failover with two duplicates, everything delivered."""
    seen: list[Seen] = [(100 * place, place % 7, 1) for place in range(295)]
    seen += [(30_000 + 10 * place, 600 - place, 2) for place in range(100)]
    again: list[Again] = [(29_400, 30_010, Cause.FAILOVER, 2), (29_430, 30_011, Cause.FAILOVER, 2)]
    counts = {word(kind): 0 for kind in MessageClass} | {"delivered_once": 393, "delivered_more": 2}
    return {
        "scheduled": 395,
        "classes": counts,
        "flags": {word(flag): 0 for flag in Flag} | {"late": 100},
        "late_causes": {word(cause): 0 for cause in LateCause if cause} | {"no_leader": 100},
        "lost": {word(reason): 0 for reason in Lost if reason},
        "causes": {word(cause): 0 for cause in Cause if cause} | {"failover": 2},
        "window": {"from_ms": 0, "until_ms": EPOCH_MS + 40_000},
        "terms": [
            {"term": 1, "node": "n1", "begun_ms": EPOCH_MS, "ended_ms": 0, "seen_ms": EPOCH_MS + 29_450},
            {"term": 2, "node": "n2", "begun_ms": EPOCH_MS + 30_000, "ended_ms": 0, "seen_ms": EPOCH_MS + 31_000},
        ],
        "term_changes": [{"from_term": 1, "to_term": 2, "duplicates": 2, "span_ms": 30}],
        "nodes": [
            {"node": "n1", "number": 1, "covered": [[0, EPOCH_MS + 40_000]], "gaps": [[EPOCH_MS, EPOCH_MS + 900]]},
            {"node": "n2", "number": 2, "covered": [[0, EPOCH_MS + 40_000]], "gaps": []},
        ],
        "figures": figures(seen, again).document(),
    } | more


def test_page_stands_alone_and_is_well_formed(tmp_path: Path) -> None:
    """Tags match, ids are unique, nothing is fetched from anywhere, and a second writing gives the same bytes."""
    path = write(tmp_path, document())
    html = path.read_text(encoding="utf-8")
    page = Page(html)
    assert path.name == "report.html"
    assert page.pictures == 4
    assert [name for name, count in Counter(page.ids).items() if count > 1] == []
    assert all(target.lstrip("#") in page.ids for target in page.refers), page.refers
    assert re.findall(r"(?:src|href)=\"(?!#)", html) == []
    assert set(re.findall(r"url\((?!#)", html)) == set()
    assert write(tmp_path, document()).read_text(encoding="utf-8") == html


def test_every_picture_is_said_in_words() -> None:
    """Who does not see a picture hears what it shows; colours are the page's own, for light and dark."""
    html = render(document())
    labels = Page(html).labels
    assert any("term 1 to 2: 2 failover duplicates within 30 ms" in label for label in labels)
    assert any("lateness of 395 first hand-overs" in label for label in labels)
    pictures = "".join(re.findall(r"<svg.*?</svg>", html, re.DOTALL))
    bare = re.sub(r"var\(--[a-z]+, #[0-9a-f]{6}\)", "", pictures, flags=re.IGNORECASE)
    assert not [colour for colour in VARIABLES if colour in bare.lower()]
    assert "prefers-color-scheme: dark" in html


def test_page_says_that_all_was_kept() -> None:
    """The verdict, the sum of the nine, the change of terms with its duplicates, their span and the gap."""
    text = Page(render(document())).text
    assert "Every promise kept" in text
    assert "Sum of the nine 395 ✓ equals the 395 scheduled" in text
    assert "1 → 2 n1 → n2" in text
    assert re.search(r"600 ms 2 30 ms", text)
    assert "Late 100 First handed over well after its due time" in text


def test_page_says_what_is_broken() -> None:
    """Each broken promise is a line, a sum that is wrong is said, a span too wide is marked."""
    broken = document(
        scheduled=396,
        promises_broken=["1 messages lost", "the span is too wide"],
        term_changes=[{"from_term": 1, "to_term": 2, "duplicates": 2, "span_ms": 51}],
    )
    html = render(broken)
    text = Page(html).text
    assert "2 promises are broken 1 messages lost the span is too wide" in text
    assert "✗ differs from the 396 scheduled" in text
    assert re.search(r'class="n bad">51 ms', html)


def test_what_files_and_topics_are_called_is_text() -> None:
    """A name with markup in it is shown, never carried out."""
    named = document(
        problems=[{"kind": "torn_tail", "node": "n1", "file": "<script>alert(1)</script>", "what": "cut", "rows": 1}],
        topics=[{"topic": "<b>orders", "messages": 395, "strict": True}],
    )
    html = render(named)
    assert "<script" not in html
    page = Page(html)
    assert "<script>alert(1)</script>" in page.text
    assert "<b>orders 395 yes" in page.text


def test_page_of_nothing_is_a_page() -> None:
    """Without a message, a term or a figure there is still a verdict and a sum."""
    bare = {
        "scheduled": 0,
        "classes": {word(kind): 0 for kind in MessageClass},
        "window": {"from_ms": 0, "until_ms": 0},
    }
    text = Page(render(bare)).text
    assert "Sum of the nine 0 ✓ equals the 0 scheduled" in text
    assert Page(render(document(figures=figures([], []).document()))).pictures == 1


def test_many_changes_are_listed_and_the_busiest_drawn() -> None:
    """Every change with duplicates is in the table; only so many pictures are drawn, and the page says so."""
    around = document()["figures"]["around"][0]
    terms = [
        {"term": term, "node": f"n{term % 3 + 1}", "begun_ms": EPOCH_MS + 1_000 * term, "ended_ms": 0, "seen_ms": 0}
        for term in range(1, 102)
    ]
    made = [{"from_term": term - 1, "to_term": term, "duplicates": term, "span_ms": 9} for term in range(2, 32)]
    found = document(terms=terms, term_changes=made)
    found["figures"] = found["figures"] | {"around": [around | {"term": each["to_term"]} for each in made]}
    html = render(found)
    text = Page(html).text
    assert f"The {CHANGES_DRAWN} changes with the most duplicates" in text
    assert all(f"{each['from_term']} → {each['to_term']}" in text for each in made)
    assert "And 70 more changes without a duplicate" in text


@pytest.mark.parametrize(
    ("said", "members"),
    [(CLASSES, MessageClass), (FLAGS, Flag), (LATE_CAUSES, LateCause), (CAUSES, Cause), (LOST, Lost)],
)
def test_every_word_of_the_ledger_is_explained(said: dict[str, Any], members: Any) -> None:
    """A class, flag or cause that is new has its sentence before it is in a report."""
    assert list(said) == [word(member) for member in members if member]


def test_early_hand_overs_are_drawn() -> None:
    """What came before its due time has a bar of its own, and the page does not hide it among the late."""
    early = document(figures=figures([(0, -3, 1), (5, 2, 1)], []).document())
    assert early["figures"]["early"] == 1
    html = render(early)
    assert "early" in re.findall(r"<text[^>]*>([^<]*)</text>", html)
    assert np.isclose(early["figures"]["lateness_ms"]["max"], 2)


def test_records_that_were_not_judged_are_told() -> None:
    """Hand-overs beyond the records' end, records of no message and rows that no copy has whole: counted on the page,
    and passed over where there is none."""
    assert "Records that were not judged" not in Page(render(document())).text
    text = Page(render(document(beyond=7411, foreign=0, unreadable={"units": 5303}))).text
    assert all(said in text for said in ("Records that were not judged", "7,411", "whole in no copy", "5,303"))
    assert "name no message" not in text
