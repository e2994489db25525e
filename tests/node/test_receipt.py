"""Receipts: what one cluster made it reads back, and nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from node.receipt import Receipt, Receipts

RECEIPTS = st.builds(
    Receipt,
    position=st.integers(0, 2**64 - 1),
    random=st.integers(0, 2**50 - 1),
    topic=st.integers(0, 2**32 - 1),
    subscription=st.integers(0, 2**16 - 1),
    term=st.integers(0, 2**32 - 1),
    attempt=st.integers(0, 2**16 - 1),
)


@given(RECEIPTS)
def test_a_receipt_comes_back(receipt: Receipt) -> None:
    """Every field survives; the text is opaque ASCII of at most 512 characters."""
    receipts = Receipts(b"s" * 32)
    text = receipts.make(receipt)
    assert receipts.read(text) == receipt
    assert text.isascii()
    assert len(text) == 59


@given(st.lists(RECEIPTS, max_size=20))
def test_many_at_once_are_the_same_as_one_by_one(many: list[Receipt]) -> None:
    """A batch is encoded in one piece; nobody's receipt depends on his neighbours."""
    receipts = Receipts(b"s" * 32)
    assert receipts.make_all(many) == [receipts.make(receipt) for receipt in many]
    assert [receipts.read(text) for text in receipts.make_all(many)] == many


@given(RECEIPTS, st.integers(0, 58) | st.just(58), st.sampled_from("ABCXYZabcxyz0189-_"))
def test_a_changed_character_is_refused(receipt: Receipt, at: int, letter: str) -> None:
    """A forged receipt, or one of whose characters any was changed, names nothing: each hand-over has one text."""
    receipts = Receipts(b"s" * 32)
    text = receipts.make(receipt)
    changed = text[:at] + letter + text[at + 1 :]
    assert receipts.read(changed) == (receipt if changed == text else None)


def test_another_clusters_receipt_is_refused() -> None:
    """The secret is the cluster's."""
    receipt = Receipt(1, 2, 3, 0, 5, 6)
    assert Receipts(b"a" * 32).read(Receipts(b"b" * 32).make(receipt)) is None


@given(st.text(max_size=80))
def test_any_text_is_read_without_an_exception(text: str) -> None:
    """What a client sends cannot break the reader."""
    assert Receipts(b"s" * 32).read(text) is None
