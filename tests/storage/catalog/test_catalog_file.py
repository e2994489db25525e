"""A catalog that was cut short is found before LMDB maps it; one that is merely shorter than its last page is sound."""

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import lmdb
import pytest

from storage.catalog.catalog import Catalog
from storage.catalog.catalog_file import require_whole
from storage.file.disk import Disk
from storage.format.position import pack
from storage.format.rows import Corrupt
from storage.tables.key import KeyEntry
from tests.storage.catalog.test_catalog import GENESIS, checkpoint

PAGE = 4096

READ_CUT = """
import sys
from pathlib import Path
from storage.catalog.catalog import Catalog
from storage.file.disk import Disk
from storage.format.rows import Corrupt

path = Path(sys.argv[1])
whole = (path / "data.mdb").read_bytes()
for length in range(2048, len(whole), 2048):
    (path / "data.mdb").write_bytes(whole[:length])
    print(length, end=" ", flush=True)
    try:
        catalog = Catalog.open(path, Disk())
        print("sound" if not catalog.faults() and len(list(catalog.dump())) else "faults", flush=True)
        catalog.close()
    except Corrupt as fault:
        print("cut short" if "cut short" in str(fault) else fault, flush=True)
"""


def filled(path: Path, checkpoints: int = 40) -> None:
    """A catalog after that many checkpoints of rows that come, change and go, so that some of its pages are free."""
    chance = random.Random(7)
    catalog = Catalog.open(path, Disk())
    catalog.found(GENESIS)
    for index in range(1, checkpoints + 1):
        for _ in range(60):
            number = chance.randrange(700)
            catalog.put_key(1, b"%05d" % number, KeyEntry(pack(index, number), 1, bytes(16), index))
        catalog.put_topic(f"topic-{index}", {"note": "x" * chance.randrange(300)}, index)
        checkpoint(catalog, index)
    catalog.close()


def test_a_catalog_cut_at_any_page_is_corrupt_or_whole(tmp_path: Path) -> None:
    """At every page's end and in every page's middle: what opens can be read to the end, and no read is a signal."""
    filled(tmp_path / "catalog")
    length = (tmp_path / "catalog" / "data.mdb").stat().st_size
    child = subprocess.run(
        [sys.executable, "-c", READ_CUT, str(tmp_path / "catalog")], capture_output=True, text=True, check=False
    )
    assert child.returncode == 0, child.stdout[-200:] + child.stderr
    said = dict(line.split(" ", 1) for line in child.stdout.splitlines())
    assert len(said) == len(range(2048, length, 2048))
    assert set(said.values()) <= {"cut short", "sound"}
    assert said[str(length // 2 // PAGE * PAGE)] == "cut short"


def found(path: Path) -> str | None:
    """What is wrong with the file; None if nothing is."""
    try:
        require_whole(path, Disk())
    except Corrupt as fault:
        return str(fault)
    return None


def random_environment(path: Path, seed: int) -> int:
    """Fills an LMDB environment in a few transactions; how many of them left a file shorter than its last page."""
    chance, shorter = random.Random(seed), 0
    keys: list[bytes] = []
    with lmdb.open(str(path), map_size=1 << 30, max_dbs=4) as environment:
        table = environment.open_db(b"keys")
        for _ in range(12):
            with environment.begin(write=True) as transaction:
                for _ in range(chance.choice([1, 10, 300, 2000])):
                    if chance.random() < 0.5 or not keys:
                        keys.append(b"%08d" % chance.randrange(10**8))
                        transaction.put(keys[-1], b"v" * chance.choice([10, 60, 500, 5000]), db=table)
                    else:
                        transaction.delete(keys.pop(chance.randrange(len(keys))), db=table)
            require_whole(path / "data.mdb", Disk())
            shorter += (path / "data.mdb").stat().st_size < (environment.info()["last_pgno"] + 1) * PAGE
    return shorter


def test_a_sound_file_may_end_before_the_last_page_it_names(tmp_path: Path) -> None:
    """LMDB never writes a page that it gave out and freed in one transaction: such a file is no damage."""
    assert sum(random_environment(tmp_path / str(seed), seed) for seed in range(20)) > 20


def test_a_page_cut_off_such_a_file_is_found(tmp_path: Path) -> None:
    """Of a file shorter than its last page, the first page less that is in use is Corrupt, with where it is."""
    paths = (tmp_path / str(seed) for seed in range(50))
    path = next(path for path in paths if random_environment(path, int(path.name)))
    whole = (path / "data.mdb").read_bytes()
    refused = 0
    for length in range(len(whole) - PAGE, len(whole) // 2, -PAGE):
        (path / "data.mdb").write_bytes(whole[:length])
        if fault := found(path / "data.mdb"):
            assert "in use" in fault
            assert f"at byte {length}: length is {length}, cut short" in fault
            refused += 1
    assert refused


def test_damaged_meta_pages_and_free_lists_are_corrupt(tmp_path: Path) -> None:
    """Any byte of both meta pages, or of a page that lists free ones, set to something else: Corrupt, or no matter."""
    path = tmp_path / "catalog"
    filled(path, 6)
    whole = (path / "data.mdb").read_bytes()
    (tmp_path / "damaged").mkdir()
    damaged = tmp_path / "damaged" / "data.mdb"
    for at in (*range(168), *range(PAGE, PAGE + 168), *range(2 * PAGE, len(whole) - PAGE, 61)):
        data = bytearray(whole[:-PAGE])
        data[at] ^= 0xFF
        damaged.write_bytes(data)
        assert str(damaged) in (found(damaged) or str(damaged))


VERIFY_EACH = """
import sys
from pathlib import Path
from storage.catalog.catalog import Catalog
from storage.catalog.catalog_file import require_sound
from storage.file.disk import Disk
from storage.format.rows import Corrupt, FormatRefused

path, page = Path(sys.argv[1]), 4096
whole = (path / "data.mdb").read_bytes()


def verified():
    try:
        require_sound(path / "data.mdb", Disk())
    except Corrupt as fault:
        return "pages" if "LMDB's page" in str(fault) else "another"
    try:
        catalog = Catalog.open(path, Disk(), read_only=True)
    except (Corrupt, FormatRefused):
        return "rows"
    try:
        return "rows" if catalog.faults() else "sound"
    finally:
        catalog.close()


for first in range(2 * page, len(whole), page):
    flags = (whole[first + 16] | whole[first + 17] << 8) % (page - 4) + 4  # of the first node
    for what, at, held in (
        ("zeros", first, bytes(page)),
        ("a tree", first + flags, bytes([whole[first + flags] | 2])),
        *((f"bit {bit} of byte {at}", first + at, bytes([whole[first + at] ^ 1 << bit]))
          for at in (0, 10, 12, 14, 16, 17) for bit in (0, 3, 6)),
    ):
        print(first // page, what, end=": ", flush=True)
        (path / "data.mdb").write_bytes(whole[:at] + held + whole[at + len(held):])
        print(verified(), flush=True)
"""


def test_whatever_page_is_zeroed_or_has_a_bit_flipped_nothing_ends_the_process(tmp_path: Path) -> None:
    """Run 2101: LMDB met a page of zeros, and ended `hourwheel verify` by an assertion. A page that is in use and none
    of LMDB's is found first."""
    path = tmp_path / "catalog"
    filled(path, 10)
    catalog = Catalog.open(path, Disk())
    catalog.put_topic("long", {"note": "x" * 20_000}, 1)
    checkpoint(catalog, 11)
    catalog.close()
    child = subprocess.run([sys.executable, "-c", VERIFY_EACH, str(path)], capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stdout[-200:] + child.stderr
    said = [line.rpartition(": ")[::2] for line in child.stdout.splitlines()]
    assert {verdict for _, verdict in said} == {"pages", "rows", "sound"}
    zeroed = Counter(verdict for what, verdict in said if "zeros" in what)
    assert zeroed["rows"] == 4, "of the five pages of the long row those that have no header"
    assert zeroed["pages"] > 10
    assert zeroed["sound"], "pages that nothing refers to"
    by_what = dict(said)
    used = [what.split()[0] for what, verdict in said if what.endswith("zeros") and verdict == "pages"]
    assert {by_what[f"{page} bit 0 of byte 0"] for page in used} == {"pages"}, "it says which page it is"
    trees = [page for page in used if by_what[f"{page} a tree"] == "pages"]
    assert 5 < len(trees) < len(used), "there are none in tables; the main tree's rows are some"


COMMIT = """
import sys
from pathlib import Path
from storage.catalog.catalog import Catalog
from storage.file.disk import Disk
from storage.tables.key import KeyEntry
from tests.storage.catalog.test_catalog import checkpoint

catalog = Catalog.open(Path(sys.argv[1]), Disk())
index = 1
while True:
    for number in range(index % 50):
        catalog.put_key(1, b"%05d" % (index * 37 % 4001 + number), KeyEntry(number, 1, bytes(16), index))
    checkpoint(catalog, index)
    if index == 20:
        print("begun", flush=True)
    index += 1
"""


def test_a_catalog_is_whole_beside_the_node_that_writes_it(tmp_path: Path) -> None:
    """Looked at again and again while another process commits, it is never taken for cut short."""
    path = tmp_path / "catalog"
    with subprocess.Popen([sys.executable, "-c", COMMIT, str(path)], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == b"begun\n"
            for _ in range(2000):
                require_whole(path / "data.mdb", Disk())
        finally:
            child.kill()


def test_what_was_never_begun_is_not_cut_short(tmp_path: Path) -> None:
    """A missing file and an empty one are the catalog of a node whose first start was cut short."""
    require_whole(tmp_path / "data.mdb", Disk())
    (tmp_path / "data.mdb").touch()
    require_whole(tmp_path / "data.mdb", Disk())
    (tmp_path / "data.mdb").write_bytes(bytes(100))
    with pytest.raises(Corrupt, match="meta page is cut short"):
        require_whole(tmp_path / "data.mdb", Disk())
