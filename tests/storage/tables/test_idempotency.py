"""Kept answers against a dumb model: what is found, what is dropped and when, over checkpoints and restarts."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from storage.catalog.catalog import Catalog
from storage.file.disk import Disk
from storage.tables import idempotency
from storage.tables.idempotency import KEPT_MS, Idempotency, KeptAnswer
from storage.tables.registry import IDEMPOTENCY
from tests.examples import examples
from tests.storage.catalog.test_catalog import checkpoint

MARK = b"f" * 16


def answer(index: int, at_ms: int, *, call: str = "cancel", note: str = "") -> KeptAnswer:
    """One of the entry `index`."""
    return KeptAnswer(at_ms, index, 0, call, MARK, "anonymous", (index,), note)


@contextmanager
def answers(directory: Path) -> Iterator[Idempotency]:
    """The table of a catalog in this directory."""
    catalog = Catalog.open(directory, Disk())
    try:
        yield catalog.of(IDEMPOTENCY)
    finally:
        catalog.close()


def test_a_row_lasts_a_day(tmp_path: Path) -> None:
    """To the millisecond; then its key is free, though the row is there until it is dropped."""
    with answers(tmp_path) as kept:
        kept.put("default", b"k", answer(1, 1_000))
        assert kept.find("default", b"k", 1_000 + KEPT_MS - 1) == answer(1, 1_000)
        assert kept.find("default", b"k", 1_000 + KEPT_MS) is None
        assert kept.find("other", b"k", 1_000) is None
        assert kept.find("default", b"k2", 1_000) is None
        kept.put("default", b"k", answer(2, 1_000 + KEPT_MS))
        assert kept.oldest_ms() == 1_000 + KEPT_MS
        kept.forget(1_000 + 2 * KEPT_MS - 1)
        assert kept.bytes > 0
        kept.forget(1_000 + 2 * KEPT_MS)
        assert (kept.bytes, kept.oldest_ms()) == (0, None)


def test_one_entry_drops_a_bounded_number(tmp_path: Path) -> None:
    """The oldest first; the next entry goes on."""
    with answers(tmp_path) as kept, patch.object(idempotency, "DROPPED_MAX", 2):
        for index in range(5):
            kept.put("default", bytes([index]), answer(index, index))
        kept.forget(KEPT_MS + 10)
        assert kept.oldest_ms() == 2
        kept.forget(KEPT_MS + 10)
        kept.forget(KEPT_MS + 10)
        assert kept.oldest_ms() is None


@pytest.mark.parametrize("field", ["call", "fingerprint", "principal"])
def test_whose_answer_it_is(field: str) -> None:
    """Only the same call of the same content and client."""
    kept = answer(1, 1)
    assert kept.answers(kept.call, kept.fingerprint, kept.principal)
    other = replace(kept, **{field: b"g" * 16 if field == "fingerprint" else "another"})
    assert not other.answers(kept.call, kept.fingerprint, kept.principal)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 12), st.integers(0, 400)),
        st.tuples(st.just("pass"), st.integers(0, KEPT_MS // 2), st.just(0)),
        st.tuples(st.just("save"), st.integers(0, 1), st.just(0)),
    ),
    min_size=5,
    max_size=40,
)


@given(STEPS)
@examples(100)
def test_against_a_model(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int]]) -> None:
    """An answer is found for a day, and if it is among the newest 600 bytes. Two catalogs write the same. One has rows
    in LMDB and starts anew, and the other has all in memory."""
    directory, now_ms = tmp_path_factory.mktemp("answers"), 1
    model: dict[bytes, KeptAnswer] = {}
    paths = [directory / "moved", directory / "still"]
    catalogs = [Catalog.open(path, Disk()) for path in paths]
    with patch.object(idempotency, "BYTES_MAX", 600):
        for index, (what, number, size) in enumerate(steps, 1):
            key, row = bytes([number % 256]), answer(index, now_ms, note="n" * (size % 250))
            if what == "pass":
                now_ms += number
            elif what == "save":
                checkpoint(catalogs[0], index)
                if number % 2:
                    catalogs[0].close()
                    catalogs[0] = Catalog.open(paths[0], Disk())
            else:
                for catalog in catalogs:
                    catalog.written.take()
                    kept = catalog.of(IDEMPOTENCY)
                    kept.forget(now_ms)
                    if kept.find("default", key, now_ms) is None:
                        kept.put("default", key, row)
                assert catalogs[0].written.take() == catalogs[1].written.take()
                model = {each: old for each, old in model.items() if old.at_ms > now_ms - KEPT_MS}
                model.setdefault(key, row)
                while _bytes(model) > 600:
                    del model[min(model, key=lambda each: model[each].index)]
            for kept in (catalog.of(IDEMPOTENCY) for catalog in catalogs):
                found = {bytes([each]): kept.find("default", bytes([each]), now_ms) for each in range(13)}
                living = {each: old for each, old in model.items() if old.at_ms > now_ms - KEPT_MS}
                assert {each: old for each, old in found.items() if old is not None} == living
                assert (kept.bytes, kept.oldest_ms()) == (
                    _bytes(model),
                    min((r.at_ms for r in model.values()), default=None),
                )
    for catalog in catalogs:
        catalog.close()


def _bytes(model: dict[bytes, KeptAnswer]) -> int:
    return sum(11 + 2 * (8 + len(key)) + len(idempotency._ENCODER.encode(row)) for key, row in model.items())
