"""Receipts: what one cluster made it reads back, and nothing else."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import node.port.receipt
from node.port.receipt import ReceiptColumns, Receipts


class Receipt(NamedTuple):
    """One hand-over."""

    position: int
    random: int
    topic: int
    term: int
    attempt: int


RECEIPTS = st.builds(
    Receipt,
    position=st.integers(0, 2**64 - 1),
    random=st.integers(0, 2**50 - 1),
    topic=st.integers(0, 2**32 - 1),
    term=st.integers(0, 2**32 - 1),
    attempt=st.integers(0, 2**16 - 1),
)
SECRET = b"s" * 32


def first() -> bool:
    """Receipts of the first form: not every member reads the second."""
    return False


def whole() -> bool:
    """Those with group and namespace."""
    return True


def make(receipts: Receipts, *many: Receipt) -> list[str]:
    """Their texts, made at once."""
    position, random, topic, term, attempt = zip(*many, strict=True)
    return receipts.make(
        position=np.array(position, np.uint64),
        random=np.array(random, np.uint64),
        topic=np.array(topic, np.uint32),
        term=np.array(term, np.uint32),
        attempt=np.array(attempt, np.uint16),
    )


def read(receipts: Receipts, *texts: str) -> dict[int, Receipt]:
    """The hand-overs that the texts name, by row; what is no receipt is left out. Another node reads the same."""
    nobody = Receipts(SECRET, first)
    nobody._keyed = receipts._keyed
    told, again = _named(receipts, texts), _named(nobody, texts)
    assert told == again
    return told


def _named(receipts: Receipts, texts: Sequence[str]) -> dict[int, Receipt]:
    rows, claims = receipts.read(texts)
    found = ReceiptColumns.of(claims)
    assert not found.subscription.any()
    columns = (found.position, found.random, found.topic, found.term, found.attempt)
    named = [Receipt(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
    return dict(zip(rows.tolist(), named, strict=True))


@given(RECEIPTS)
def test_a_receipt_comes_back(receipt: Receipt) -> None:
    """Every field survives; the text is opaque ASCII of at most 512 characters."""
    receipts = Receipts(SECRET, first)
    (text,) = make(receipts, receipt)
    assert read(receipts, text) == {0: receipt}
    assert text.isascii()
    assert len(text) == 59


@given(st.lists(RECEIPTS, min_size=1, max_size=20))
def test_many_at_once_are_the_same_as_one_by_one(many: list[Receipt]) -> None:
    """They are encoded and read in one piece; nobody's receipt depends on his neighbours."""
    receipts = Receipts(SECRET, first)
    texts = make(receipts, *many)
    assert texts == [text for receipt in many for text in make(receipts, receipt)]
    assert read(receipts, *texts) == dict(enumerate(many))


@given(RECEIPTS, st.integers(0, 58) | st.just(58), st.sampled_from("ABCXYZabcxyz0189-_+/=é"))
def test_a_changed_character_is_refused(receipt: Receipt, at: int, letter: str) -> None:
    """A forged receipt, or one of whose characters any was changed, names nothing: each hand-over has one text. Those
    beside it are read all the same."""
    receipts = Receipts(SECRET, first)
    (text,) = make(receipts, receipt)
    changed = text[:at] + letter + text[at + 1 :]
    found = {1: receipt} if changed == text else {}
    assert read(receipts, text, changed, text) == {0: receipt, **found, 2: receipt}


def test_the_other_base64_alphabet_is_no_second_text() -> None:
    """Python's decoder takes + and / beside - and _; a receipt with them is refused."""
    receipts = Receipts(SECRET, first)
    texts = make(receipts, *(Receipt(number, 0, 1, 1, 1) for number in range(50)))
    others = [text.replace("-", "+").replace("_", "/") for text in texts]
    changed = {row for row, text in enumerate(texts) if text != others[row]}
    assert changed
    assert read(receipts, *others).keys() == set(range(50)) - changed


@pytest.mark.parametrize("level", [first, whole])
def test_what_was_made_lately_is_known_by_its_text(level: Callable[[], bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """In any order, as often as it is shown, and from one generation to the next; with one that was not made here all
    are read by their MACs."""
    monkeypatch.setattr(node.port.receipt, "KNOWN_MAX", 100)
    receipts, macs = Receipts(SECRET, level), list[int]()
    many = [Receipt(number, number * 7, 3, 5, 1) for number in range(250)]
    texts = [text for at in range(0, 250, 10) for text in make(receipts, *many[at : at + 10])]

    def counted(bodies: bytes, form: Any) -> bytes:
        macs.append(len(bodies))
        return Receipts._macs(receipts, bodies, form)

    monkeypatch.setattr(receipts, "_macs", counted)
    for rows in (range(250 - 100, 250), range(249, 249 - 100, -1), [200, 200, 160]):
        assert read(receipts, *(texts[row] for row in rows)) == {at: many[row] for at, row in enumerate(rows)}
    assert not macs
    assert read(receipts, texts[0], texts[249]) == {0: many[0], 1: many[249]}
    assert read(receipts, texts[249], texts[248][:-1] + "+") == {0: many[249]}
    assert len(macs) == 2
    assert len(receipts._made) + len(receipts._made_before) <= 2 * 100


def test_another_clusters_receipt_is_refused() -> None:
    """The secret is the cluster's."""
    (text,) = make(Receipts(b"b" * 32, first), Receipt(1, 2, 3, 5, 6))
    assert read(Receipts(b"a" * 32, first), text) == {}


@given(st.lists(st.text(max_size=80) | st.text(alphabet="AB-_=", min_size=59, max_size=59), max_size=5))
def test_any_text_is_read_without_an_exception(texts: list[str]) -> None:
    """What a client sends cannot break the reader."""
    assert read(Receipts(SECRET, first), *texts) == {}


def test_nothing_makes_nothing() -> None:
    """No hand-over, no text; no text, no hand-over."""
    receipts = Receipts(SECRET, first)
    nothing = np.empty(0, np.uint64)
    assert receipts.make(position=nothing, random=nothing, topic=1, term=1, attempt=nothing.astype(np.uint16)) == []
    assert read(receipts) == {}


GOLDEN = [
    "AQAAAAAAAAACAAAAAAAAAAMAAAAAAAUAAAAGABGwcB4DoUzhtRfwjIl3QOI",
    "__________________8DAAQAAAAAAAUAAAD__3rU-kKmnHDSokRgVVVrjH0",
]
"""Made by commit 0971674."""


def test_at_level_1_receipts_are_what_the_first_builds_make() -> None:
    """And from the next level on they are longer, and both forms are read, in whatever order they come."""
    many = (Receipt(1, 2, 3, 5, 6), Receipt(2**64 - 1, 2**50 - 1, 4, 5, 65535))
    older, newer = Receipts(SECRET, first), Receipts(SECRET, whole)
    assert make(older, *many) == GOLDEN
    longer = make(newer, *many)
    assert [len(text) for text in longer] == [67, 67]
    mixed = [GOLDEN[0], longer[1], "none", GOLDEN[1], longer[0]]
    for receipts in (older, newer):
        assert read(receipts, *mixed) == {0: many[0], 1: many[1], 3: many[1], 4: many[0]}


@given(RECEIPTS, st.integers(0, 66), st.sampled_from("ABCXYZabcxyz0189-_+/=é"))
def test_a_changed_character_of_a_long_one_is_refused(receipt: Receipt, at: int, letter: str) -> None:
    """As of a short one: group and namespace stand under the MAC."""
    receipts = Receipts(SECRET, whole)
    (text,) = make(receipts, receipt)
    changed = text[:at] + letter + text[at + 1 :]
    found = {1: receipt} if changed == text else {}
    assert read(receipts, text, changed, text) == {0: receipt, **found, 2: receipt}


def test_a_receipt_of_another_group_or_namespace_is_none_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though its MAC is right: such a message lives elsewhere."""
    (of_another,) = make(Receipts(SECRET, whole, 1), Receipt(1, 2, 3, 5, 6))
    zeros = np.zeros

    def named(shape: Any, dtype: Any) -> Any:
        made = zeros(shape, dtype)
        if made.dtype.names:
            made["namespace"] = 1
        return made

    monkeypatch.setattr(np, "zeros", named)
    (in_another,) = make(Receipts(SECRET, whole), Receipt(1, 2, 3, 5, 6))
    monkeypatch.setattr(np, "zeros", zeros)
    for text in (of_another, in_another):
        assert len(text) == 67
        assert read(Receipts(SECRET, whole), text) == {}
