"""Topics that are dropped: only where the log is as the leader saw it, and never with a message left to hand over."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from replication.apply.topic import CHANGED, DROPPED, MISMATCH, UNKNOWN
from replication.command.topic import DropTopic, PutTopic
from storage.format.position import EVER_MS
from storage.tables.topic import PAUSED_SINCE, RESUMED_AT, Topic, pause_of
from tests.replication.applied_log import (
    GENESIS,
    T0,
    Log,
    ack,
    fail,
    lease,
    placed,
    redrive,
    rise,
    risen_log,
    schedule,
)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """A founded log with a topic t."""
    log = Log(tmp_path)
    log.apply(GENESIS)
    log.apply(PutTopic("default", "t", {"paused": True}, replace=True))
    yield log
    log.store.close()


def _drop(log: Log, *, index: int = 0, units: int = 0, revision: int = 0) -> DropTopic:
    """As of a leader that has just looked, or so far off."""
    return DropTopic("default", "t", log.index + 1 + index, log.store.unit_count + units, revision)


def _topic(log: Log) -> Topic:
    topic = log.store.catalog.topic("t")
    assert topic is not None
    return topic


class _Told:
    """A listener that keeps what it hears of topics."""

    def __init__(self) -> None:
        self.topics: list[tuple[int, dict[str, object]]] = []

    def on_topic(self, number: int, settings: dict[str, object]) -> None:
        """See replication.apply.machine.Listener."""
        self.topics.append((number, settings))


def test_a_topic_says_when_it_was_paused_and_resumed(tmp_path: Path) -> None:
    """By the time of the entry: kept while nothing changes, also by a PUT; the next pause is another one. A topic that
    was never paused says nothing."""

    with risen_log(tmp_path) as risen:

        def put(now_ms: int, settings: dict[str, object], *, replace: bool = False) -> dict[str, object]:
            risen.apply(PutTopic("default", "t", settings, replace=replace), now_ms=now_ms)
            return {name: value for name, value in _topic(risen).settings.items() if name != "mode"}

        assert put(T0, {"mode": "pull"}) == {}
        paused = {"paused": True, PAUSED_SINCE: T0 + 1}
        assert put(T0 + 1, {"paused": True}) == paused
        assert put(T0 + 2, {"mode": "push"}) == paused
        assert put(T0 + 3, {"paused": True, PAUSED_SINCE: 7, RESUMED_AT: 8}, replace=True) == paused
        assert pause_of(_topic(risen).settings) == (T0 + 1, EVER_MS)
        resumed = {"paused": False, PAUSED_SINCE: T0 + 1, RESUMED_AT: T0 + 4}
        assert put(T0 + 4, {"paused": False}) == resumed
        assert put(T0 + 5, {"mode": "pull"}) == resumed
        assert pause_of(_topic(risen).settings) == (T0 + 1, T0 + 4)
        assert put(T0 + 6, {"paused": True}) == {"paused": True, PAUSED_SINCE: T0 + 6}
        assert put(T0 + 7, {}, replace=True) == {PAUSED_SINCE: T0 + 6, RESUMED_AT: T0 + 7}


def test_a_topic_that_was_paused_before_the_level_rose(log: Log) -> None:
    """Since when is not known, and never will be; when it was resumed is."""
    assert _topic(log).settings == {"paused": True}
    assert pause_of(_topic(log).settings) == (0, EVER_MS)
    rise(log)
    log.apply(PutTopic("default", "t", {"mode": "push"}, replace=False), now_ms=T0 + 1)
    assert pause_of(_topic(log).settings) == (0, EVER_MS)
    log.apply(PutTopic("default", "t", {"paused": False}, replace=False), now_ms=T0 + 2)
    assert pause_of(_topic(log).settings) == (0, T0 + 2)


def test_drop(log: Log) -> None:
    """The name is free; a topic of that name made again is another one, with settings of its own."""
    old, told = _topic(log), _Told()
    log.machine.told.listener = told  # type: ignore[assignment]
    assert log.apply(_drop(log)).results == (DROPPED,)
    assert told.topics == [(old.number, {})]
    assert log.store.catalog.topic("t") is None
    assert log.apply(_drop(log)).results == (UNKNOWN,)
    log.apply(PutTopic("default", "t", {}, replace=True))
    assert (_topic(log).number > old.number, _topic(log).settings, _topic(log).revision) == (True, {}, 1)


def test_void_unless_all_is_as_it_was(log: Log) -> None:
    """At another place in the log, with other units, of another revision: nothing is done."""
    log.apply(schedule(T0 + 5_000))
    for changes, result in (
        ({"index": 1}, CHANGED),
        ({"index": -1}, CHANGED),
        ({"units": -1}, CHANGED),
        ({"revision": 2}, MISMATCH),
    ):
        assert log.apply(_drop(log, **changes)).results == (result,)
    assert _topic(log).revision == 1
    assert log.apply(_drop(log, revision=1)).results == (DROPPED,)


def test_what_comes_in_the_same_entry(log: Log) -> None:
    """A message that is made due again before it is in the way; one that is scheduled after it makes the topic anew."""
    (home,) = placed(log.apply(schedule(T0 + 5_000, topic="t")))
    log.apply(lease(home))
    log.apply(fail((home, 1, 1), dead=True))
    redriven, dropped = log.apply(redrive(home), _drop(log)).results
    assert (redriven.tolist(), dropped) == ([1], CHANGED)
    log.apply(lease(log.place(home), attempt=2))
    log.apply(ack((log.place(home), 1, 2)))
    old = _topic(log)
    dropped, scheduled = log.apply(_drop(log), schedule(T0 + 9_000, topic="t")).results
    assert (dropped, _topic(log).number > old.number) == (DROPPED, True)
    assert log.store.units(scheduled.position)["topic"].tolist() == [_topic(log).number]


def test_the_dead_of_a_dropped_topic_stay_dead(log: Log) -> None:
    """A redrive that was under way: due again without a topic, nobody could ever take it, and its hour would stay for
    good."""
    (home, other) = placed(log.apply(schedule(T0 + 5_000, topic="t"), schedule(T0 + 5_000, topic="u")), 0) + placed(
        log.apply(schedule(T0 + 5_000, topic="u"))
    )
    for each in (home, other):
        log.apply(lease(each))
        log.apply(fail((each, 1, 1), dead=True))
    assert log.apply(_drop(log)).results == (DROPPED,)
    assert log.apply(redrive(home, other)).results[0].tolist() == [0, 1]
    assert log.place(home) == home


def test_all_nodes_do_the_same(log: Log, tmp_path: Path) -> None:
    """The same log on another store, restarted in between, has the same topics and the same hash."""
    log.apply(schedule(T0 + 5_000))
    log.apply(_drop(log, units=1))
    log.apply(_drop(log))
    (tmp_path / "other").mkdir()
    other = Log(tmp_path / "other")
    for index, term, entry in log.entries:
        other.machine.apply(index, term, entry)
    assert other.machine.rolling_hash == log.machine.rolling_hash
    assert other.store.catalog.topics() == log.store.catalog.topics()
    other.store.close()
