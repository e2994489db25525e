"""The build before this one beside it, on real processes; two minutes for each leader in `make soak-versions`."""

import asyncio
import re
from pathlib import Path

import pytest

import chaos.versions.older_build
from chaos.versions.older_build import NoOlderBuild, check_out, older_commit, run
from chaos.versions.run import NEW, OLD, upgrade
from replication.command.entry import version_of
from replication.journal.journal import Journal
from storage.file.disk import Disk

IDS = ("n1", "n2", "n3")


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the older build lies."""
    return check_out(tmp_path_factory.mktemp("older") / "build")


@pytest.mark.timeout(240)
def test_every_node_is_upgraded_under_load(tmp_path: Path, older: Path) -> None:
    """In each mix every node leads, old ones too; what is new is refused until all are new, and the older build from
    then on; nothing is lost, early or doubled."""
    script = asyncio.run(upgrade(tmp_path, older, rate=40, hold_s=0.5, say=print, thorough=False))
    builds = {mix: [build for each, _, build in script.led if each == mix] for mix, _, _ in script.led}
    assert builds == {"1 new, 2 old": [NEW, OLD, OLD], "2 new, 1 old": [NEW, NEW, OLD], "level 2": [NEW] * 3}
    assert [node for _, node, _ in script.led] == [*IDS] * 3
    assert len(script.refusals) == 3


def test_the_older_build_refuses_a_journal_that_may_hold_newer_entries(tmp_path: Path, older: Path) -> None:
    """The segment says so before any checkpoint does: a node killed right after the level rose has no other sign."""
    journal = Journal.open(tmp_path, disk=Disk(), version_of=version_of)
    journal.add(b"\x01", 1, 1)
    journal.add(b"\x02" + bytes(39), 2, 1)
    journal.sync_now()
    journal.close()
    said = run(older, "-c", _OPEN.format(path=str(tmp_path)))
    assert said.returncode == 0, said.stderr
    assert re.fullmatch(r"format refused: \S+2\.seg: version 2; this build supports 1\n", said.stdout)


# By the older build's names of its files.
_OPEN = """
from pathlib import Path
from replication.journal import Journal
from storage.disk import Disk
from storage.format import FormatRefused
try:
    Journal.open(Path({path!r}), disk=Disk())
except FormatRefused as refused:
    print(refused)
"""


def test_a_clone_without_that_commit_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shallow clone lacks it."""
    assert re.fullmatch("[0-9a-f]{40}", older_commit())
    named = tmp_path / "older-commit"
    named.write_text("# why\n" + "0" * 40 + "\n")
    monkeypatch.setattr(chaos.versions.older_build, "NAMED", named)
    with pytest.raises(NoOlderBuild, match=r"no commit 0{40}.*git fetch --unshallow"):
        check_out(tmp_path / "build")
    assert not (tmp_path / "build").exists()
