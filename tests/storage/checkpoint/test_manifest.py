"""The manifest, and a checkpoint held fast while its store goes on."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.catalog.checkpoint_record import CheckpointRecord
from storage.catalog.hour_lengths import HourLengths
from storage.checkpoint.manifest import PIECE, SMALL, TOGETHER, Manifest, Part, Place, SnapshotRefused, parts_of
from storage.checkpoint.pin import PINS, Pin
from storage.file.disk import Disk
from storage.format.rows import Corrupt, FormatRefused
from storage.store import Store
from tests.storage.workload import CLUSTER_ID, ENTRIES, HOUR, H, append, checkpoint, replay

LENGTHS = st.builds(HourLengths, *(st.integers(0, 3 * PIECE) for _ in range(7)), st.integers(0, 3))
RECORDS = st.builds(
    CheckpointRecord,
    applied_index=st.integers(1, 2**40),
    applied_term=st.integers(1, 2**30),
    tick=st.integers(0, 2**40),
    local_index=st.integers(0, 2**40),
    state_applied_index=st.integers(0, 2**40),
    max_now_ms=st.integers(0, 2**42),
    rolling_hash=st.binary(max_size=16),
    hours=st.dictionaries(st.integers(0, 2**24 - 1), LENGTHS, max_size=4),
)
RECORD = CheckpointRecord(
    applied_index=7, applied_term=2, tick=1, local_index=0, state_applied_index=7, max_now_ms=9,
    hours={HOUR: HourLengths(200, 128, 112, 1, 1)},
)  # fmt: skip
MANIFESTS = st.builds(
    Manifest, st.binary(min_size=16, max_size=16), st.integers(0, 4095), RECORDS, st.integers(0, 3 * PIECE)
)


@given(MANIFESTS, st.booleans())
def test_manifest_reads_back(manifest: Manifest, summed: bool) -> None:
    """Encoded and decoded it is the same; its pieces cover each file once, in order."""
    if summed:
        manifest = replace(manifest, sums=tuple(size for _, _, size in manifest.pieces()))
    assert Manifest.decode(manifest.encode()) == manifest
    covered = dict.fromkeys(manifest.lengths, 0)
    for name, offset, size in manifest.pieces():
        assert covered[name] == offset
        assert 0 < size <= PIECE
        covered[name] += size
    assert covered == manifest.lengths


SIZES = st.one_of(st.integers(1, 40), st.sampled_from([SMALL, SMALL + 1, PIECE, PIECE + 1, 3 * PIECE]))


@given(st.lists(st.tuples(st.integers(1, TOGETHER + 2), SIZES), max_size=6), st.booleans())
def test_places_cover_every_file_once_and_in_order(runs: list[tuple[int, int]], together: bool) -> None:
    """Of no more bytes than a piece may have, and no more files than may go together; those are small."""
    sizes = [size for count, size in runs for _ in range(count)]
    manifest = Manifest(CLUSTER_ID, 0, RECORD, 0)
    vars(manifest)["files"] = files = tuple((f"{number:06}", size) for number, size in enumerate(sizes))
    covered: list[Part] = []
    for place in manifest.places(together=together):
        parts = parts_of(files, place)
        assert sum(part.size for part in parts) == place.size <= PIECE
        assert len(parts) <= (TOGETHER if together else 1)
        assert len(parts) == 1 or all(part.size <= SMALL and not part.offset for part in parts)
        covered += parts
    whole = dict.fromkeys(dict(files), 0)
    for name, offset, size in covered:
        assert whole[name] == offset
        whole[name] += size
    assert whole == dict(files)
    assert [part.name for part in covered] == sorted(part.name for part in covered)
    if sizes:
        assert sum(part.size for part in parts_of(files, Place(len(sizes), 0, sizes[-1] + 1))) == sizes[-1]
        assert parts_of(files, Place(len(sizes) + 1, 0, 1)) == parts_of(files, Place(1, sizes[0] + 1, 1)) == []


def test_manifest_damaged() -> None:
    """No flipped bit and no cut end of a manifest goes unnoticed."""
    sound = Manifest(CLUSTER_ID, 0, RECORD, 4096, (1, 2, 3, 4)).encode()
    for at in range(len(sound)):
        with pytest.raises((Corrupt, FormatRefused)):
            Manifest.decode(sound[:at] + bytes([sound[at] ^ 1 << at % 8]) + sound[at + 1 :])
        with pytest.raises((Corrupt, FormatRefused)):
            Manifest.decode(sound[:at])


def _read(pin: Pin) -> dict[str, bytes]:
    """All files of a pin, read piece by piece."""
    files = dict.fromkeys(pin.manifest.lengths, b"")
    for name, offset, size in pin.manifest.pieces():
        files[name] += pin.read(name, offset, size)
    return files


def test_nothing_to_pin(quick_path: Path) -> None:
    """Before the first checkpoint there is no snapshot."""
    store = Store.open(quick_path, disk=Disk())
    assert store.pin() is None
    store.close()


def test_pin_stays_as_it_was(quick_path: Path) -> None:
    """What a pin reads is its checkpoint, byte for byte, whatever is appended, checkpointed and unlinked after it;
    hours unlinked and begun again meanwhile do not touch its directories."""
    store = Store.open(quick_path, disk=Disk())
    replay(store, ENTRIES, upto=12)
    assert store.applied_index == 12
    pin = store.pin()
    assert pin is not None
    manifest = pin.prepare()
    assert manifest.record == store.checkpoint
    assert manifest.files == tuple(sorted(manifest.files))
    before = _read(pin)
    assert {name: len(data) for name, data in before.items()} == manifest.lengths
    hours = store.hours()
    for hour in hours:
        store.unlink(hour)
    append(5_000, 9 * H)(store)  # begun again, in directories of their own
    checkpoint(store, 13)
    append(5_500, 9 * H + 1)(store)
    checkpoint(store, 14)
    assert _read(pin) == before
    pin.release()
    pin.release()
    checkpoint(store, 15)
    assert len(list((quick_path / "hours").iterdir())) == 2, "what was kept for the pin is gone"
    assert not list((quick_path / PINS).iterdir())
    store.close()
    reopened = Store.open(quick_path, disk=Disk())
    assert reopened.unit_count == 4
    reopened.close()


def test_name_of_a_kept_directory_is_not_given_again(quick_path: Path) -> None:
    """An hour that is begun anew after the checkpoint without it, while a pin holds the old one, takes another
    directory; when the pin is gone the old directory goes, not the new one."""
    store = Store.open(quick_path, disk=Disk())
    replay(store, ENTRIES, upto=5)
    pin = store.pin()
    assert pin is not None
    pin.prepare()
    store.unlink(HOUR)
    checkpoint(store, 6)  # names it no more, and may not remove it
    append(5_000)(store)
    checkpoint(store, 7)
    assert pin.read(f"hours/{HOUR}/index", 0, 64)
    pin.release()
    checkpoint(store, 8)
    names = {path.name for path in (quick_path / "hours").iterdir()}
    assert f"{HOUR}.1" in names
    assert str(HOUR) not in names
    store.close()


def test_pin_reads_only_what_the_manifest_says(quick_path: Path) -> None:
    """Nothing behind the checkpoint's lengths, no file that it does not name, no empty piece."""
    store = Store.open(quick_path, disk=Disk())
    replay(store, ENTRIES, upto=5)
    pin = store.pin()
    assert pin is not None
    manifest = pin.prepare()
    append(5_100)(store)
    name = f"hours/{HOUR}/index"
    length = manifest.lengths[name]
    assert (quick_path / name).stat().st_size > length
    for bad in ((name, 0, length + 1), (name, length, 1), (name, -1, 1), (name, 0, 0), ("LOCK", 0, 1), ("../x", 0, 1)):
        with pytest.raises(SnapshotRefused):
            pin.read(*bad)
    shutil.rmtree(quick_path / "hours" / str(HOUR))
    with pytest.raises(Corrupt, match="missing"):
        pin.read(name, 0, 64)
    pin.release()
    store.close()


def test_two_pins(quick_path: Path) -> None:
    """Two pins on one checkpoint are independent of each other; a directory stays until the last one is gone."""
    store = Store.open(quick_path, disk=Disk())
    replay(store, ENTRIES, upto=5)
    first, second = store.pin(), store.pin()
    assert first is not None
    assert second is not None
    first.prepare()
    second.prepare()
    store.unlink(HOUR)
    checkpoint(store, 6)
    first.release()
    checkpoint(store, 7)
    assert second.read(f"hours/{HOUR}/log", 0, 64)
    second.release()
    checkpoint(store, 8)
    assert not (quick_path / "hours" / str(HOUR)).exists()
    store.close()


def test_pin_of_a_checkpoint_not_yet_finished(quick_path: Path) -> None:
    """A checkpoint that is committed in its thread and not finished on the loop is already the one that is pinned, and
    one that is merely begun is not."""
    store = Store.open(quick_path, disk=Disk())
    replay(store, ENTRIES, upto=5)
    assert store.checkpoint is not None
    append(5_100)(store)
    job = store.begin_checkpoint(replace(store.checkpoint, applied_index=6))
    early = store.pin()
    job.run()
    late = store.pin()
    assert early is not None
    assert late is not None
    assert (early.prepare().applied_index, late.prepare().applied_index) == (5, 6)
    job.finish()
    early.release()
    late.release()
    store.close()


def test_copies_left_by_a_crash_are_removed(quick_path: Path) -> None:
    """A pin dies with its process; its copy of the catalog goes when the store is opened again."""
    store = Store.open(quick_path, disk=Disk())
    replay(store, ENTRIES, upto=5)
    pin = store.pin()
    assert pin is not None
    pin.prepare()
    store.close()
    assert (quick_path / PINS).exists()
    Store.open(quick_path, disk=Disk()).close()
    assert not (quick_path / PINS).exists()
