"""What a run knows of pushes by the nodes' own logs."""

from pathlib import Path

from chaos.load.webhooks import starts
from tests.storage.file.test_delivery_file import NOW_MS, rows, writer


def damage(path: Path, at: int) -> None:
    """One byte of the file is another one."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def logged(data: Path, first: int) -> None:
    """The log of a node's directory, with four pushes."""
    log = writer(data / "deliveries")
    log.append(rows(4, first), NOW_MS)
    log.close()


def test_a_torn_row_hides_no_other(tmp_path: Path) -> None:
    """A power cut tears what was not synced; the run ended without a verdict. Seed 3737, hostile, 10 minutes."""
    for node_id, first in (("n1", 0), ("n2", 10), ("kept", 20)):
        (tmp_path / node_id / "deliveries").mkdir(parents=True)
        logged(tmp_path / node_id, first)
    (torn,) = (tmp_path / "n2" / "deliveries").iterdir()
    damage(torn, torn.stat().st_size - 1)
    (headless,) = (tmp_path / "kept" / "deliveries").iterdir()
    damage(headless, 0)
    found = starts({node_id: tmp_path / node_id for node_id in ("n1", "n2")}, [("n3", tmp_path / "kept")])
    assert len(found) == 4 + 3 + 4
    assert sorted(node_id for node_id, _ in found.values()) == ["n1"] * 4 + ["n2"] * 3 + ["n3"] * 4
    assert {at_ms for _, at_ms in found.values()} == {NOW_MS}
