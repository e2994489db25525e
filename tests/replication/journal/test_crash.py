"""A fixed workload stopped at every call to the disk, killed or cut off from power, opened again, stopped there too."""

from random import Random

import pytest

from tests.replication.journal_model import Model
from tests.replication.memory_disk import MemoryDisk, Stopped


def work(model: Model) -> None:
    """Entries, votes, conflicts, segments begun and unlinked, a log begun anew; some of it during a sync."""
    index = 0

    def lead(count: int, term: int, size: int = 30) -> None:
        nonlocal index
        for _ in range(count):
            index += 1
            model.add((b"%d.%d" % (index, term) + b"x" * size, index, term))

    model.set_term(1, "n1")
    model.set_voter()
    lead(3, 1)
    model.write()
    lead(8, 1, 60)
    model.collect()
    lead(2, 1)
    model.run()
    model.set_commit(9)
    model.timer()
    model.write()
    model.set_term(2, None)
    model.delete_from(10)
    for entry in [*model.stash[:1]]:
        model.add(entry)
    index = 11
    lead(3, 2)
    model.collect()
    model.set_commit(11)
    lead(20, 2, 100)
    model.run()
    model.write()
    model.set_term(3, "n2")
    lead(20, 3, 100)
    model.write()
    lead(3, 3)
    model.write()
    model.trim(40)
    model.set_commit(50)
    model.timer()
    model.collect()
    lead(2, 3)
    model.run()
    model.write()
    model.clear()
    index += 30
    lead(4, 3)
    model.set_commit(index)
    model.write()


def stopped_at(call: int, torn: int) -> Model:
    """The workload up to this call, counted from the first open on; all of it stays in sight of the next process."""
    disk = MemoryDisk()
    disk.stop_at, disk.torn = call, torn
    model = Model(disk)
    try:
        model.start()
        work(model)
    except Stopped:
        return model
    raise AssertionError(f"fewer than {call} calls")


def calls_of_work() -> int:
    """How many calls to the disk the workload makes."""
    model = Model(MemoryDisk())
    model.start()
    work(model)
    assert {"write", "fdatasync", "rename", "unlink", "fsync directory", "create"} == set(model.disk.calls)
    return len(model.disk.calls)


@pytest.mark.parametrize("torn", [0, 1, 40, 5000])
def test_killed_at_every_call(torn: int) -> None:
    """Nothing durable is lost, nothing comes back that was never there, and the node goes on."""
    for call in range(1, calls_of_work() + 1):
        model = stopped_at(call, torn)
        model.crash(None)
        model.check()


@pytest.mark.parametrize("seed", range(12))
def test_power_cut_at_every_call(seed: int) -> None:
    """The same when what was not synced survives sector by sector, or not."""
    random = Random(seed)
    for call in range(1, calls_of_work() + 1):
        model = stopped_at(call, random.choice((0, 7, 100, 5000)))
        model.crash(random)
        model.check()


@pytest.mark.parametrize("seed", range(4))
def test_power_cut_at_every_call_of_the_start(seed: int) -> None:
    """A start that dies leaves files from which the next start comes to the same log."""
    random = Random(seed)
    for call in range(1, calls_of_work() + 1, 3):
        for start_call in range(1, 8):
            model = stopped_at(call, 40)
            model.disk.power_cut(random)
            model.disk.stop_at = start_call
            try:
                model.start()
            except Stopped:
                model.disk.power_cut(random)
                model.crash(None)
            model.check()


def test_goes_on_after_every_power_cut() -> None:
    """After the crash the journal takes entries and promises, and the next restart has them."""
    random = Random(99)
    for call in range(1, calls_of_work() + 1):
        model = stopped_at(call, 13)
        model.crash(random)
        model.set_term(model.term + 1, "n3")
        model.add((b"after", model.log[-1][1] + 1 if model.log else 1, model.term))
        model.write()
        model.crash(random)
        assert model.log[-1][0] == b"after"
        assert (model.vote, model.durable) == ("n3", model.journal.durable_seq)


@pytest.mark.parametrize("call", [1, 2, 3])
def test_a_sync_that_only_unlinks_writes_nothing_of_what_comes_meanwhile(call: int) -> None:
    """Found by the model: such a sync held the list to which the loop went on to append, and wrote what it never owned:
    a batch that is not whole, in a sync that does not count it."""
    model = Model(MemoryDisk())
    model.start()
    model.set_term(1, "me")
    for index in range(1, 7):
        model.add((b"x" * 100, index, 1))
    model.write()
    model.set_term(2, None)
    model.clear()
    for index in (7, 8):
        model.add((b"installed", index, 2))
    model.write()
    model.journal.close()
    model.crash(None)
    model.delete_to(0)
    model.collect()
    assert model.sync is not None
    assert model.sync.doomed is not None
    model.add((b"meanwhile", 9, 2))
    durable = bytes(model.disk.open[model.journal._active.fd].seen)
    assert model.stop_in_sync(call, 200) == (call < 3)
    assert bytes(model.disk.names[model.journal._active.path].seen) == durable
    model.crash(None)
