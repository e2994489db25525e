"""Lists on a whole node: held against what GET says of each message, page by page."""

import asyncio
import itertools
import time
from pathlib import Path
from typing import Any

import pytest
from msgpack import packb
from msgspec.structs import replace

from api.port.message import MessagePage, MessageView, Target
from api.port.port import ANONYMOUS, PULL_BYTES_MAX, MessageIn, PullIn, TopicChange
from api.port.problem import Problem
from api.port.queries import OPEN_STATES, ListQuery
from node.handover.strict import Strict
from node.message import message_list
from node.message.list_cursor import read_cursor, write_cursor
from node.message.message_list import MessageList
from node.node import Node
from storage.format.pieces import Pieces
from storage.format.position import HOUR_MS
from storage.format.rows import Settles
from storage.query.page import HourPage, PageStart
from storage.store import Store
from tests.node.message.everything import everything, put_topic, schedule, views_of
from tests.node.single_node import run_node

STATES = (*OPEN_STATES, "delivered", "cancelled", "dead", "expired")


async def page_of(node: Node, **query: Any) -> MessagePage:
    """One page."""
    return await node.front.messages(ListQuery(**query), principal=ANONYMOUS)


async def listed(node: Node, cursor: str | None = None, **query: Any) -> list[MessageView]:
    """The messages of all pages, from this one on."""
    items: list[MessageView] = []
    while True:
        page = await page_of(node, cursor=cursor, **query)
        items += page.items
        if (cursor := page.next_cursor) is None:
            return items


def told(view: MessageView) -> MessageView:
    """As a list shows it: without a history."""
    return replace(view, history=())


def test_a_list_is_what_get_says_of_each(tmp_path: Path) -> None:
    """Every message once, where it stands, as GET shows it: by topic, state, tag and window, whatever a page holds; in
    order of due time."""

    async def play(node: Node) -> None:
        views = list(map(told, await views_of(node, await everything(node))))
        by_id = {view.id: view for view in views}
        assert {view.state for view in views} == set(STATES) - {"expired"}
        for limit, states in itertools.product(
            (1, 4, 1_000), (OPEN_STATES, STATES, ("leased",), ("dead", "cancelled"))
        ):
            items = await listed(node, limit=limit, states=states)
            assert [view.due_ms for view in items] == sorted(view.due_ms for view in items)
            assert len(items) == len({view.id for view in items})
            assert {view.id: view for view in items} == {id: view for id, view in by_id.items() if view.state in states}
        middle = sorted(view.due_ms for view in views)[len(views) // 2]
        for topic, tag in itertools.product("ab", ("eu", "vip", "asia")):
            windows: list[dict[str, Any]] = [{}, {"from_ms": middle}, {"to_ms": middle}]
            for window in windows:
                items = await listed(node, limit=3, states=STATES, topic=topic, tag=tag, **window)
                assert {view.id for view in items} == {
                    view.id
                    for view in views
                    if view.topic == topic
                    and tag in view.tags
                    and window.get("from_ms", 0) <= view.due_ms < window.get("to_ms", 1 << 60)
                }

    run_node(tmp_path / "n1", play)


def test_bodies_only_where_they_are_wanted(tmp_path: Path) -> None:
    """And a page of large ones ends by their bytes, and loses none."""

    async def play(node: Node) -> None:
        body = b'"' + b"x" * 200_000 + b'"'
        ids = await schedule(node, [MessageIn("t", body, delay_ms=60_000 + row) for row in range(50)])
        few = await page_of(node, limit=1_000)
        assert PULL_BYTES_MAX - 2 * len(body) < sum(len(view.body) for view in few.items) <= PULL_BYTES_MAX
        assert few.next_cursor is not None
        assert [view.id for view in await listed(node, limit=1_000)] == ids
        without = await page_of(node, limit=1_000, body=False)
        assert [(view.id, view.body) for view in without.items] == [(id, b"") for id in ids]
        assert without.next_cursor is None

    run_node(tmp_path / "n1", play)


def test_a_cursor_goes_on_from_where_it_stood(tmp_path: Path) -> None:
    """What ends, moves away or arrives before it changes nothing behind it."""

    async def play(node: Node) -> None:
        ids = await schedule(node, [MessageIn("t", b"1", delay_ms=HOUR_MS + row // 3) for row in range(30)])
        first = await page_of(node, limit=10)
        for id in ids[:20:3]:
            await node.front.cancel(id, if_match=None, principal=ANONYMOUS)
        late = await schedule(node, [MessageIn("t", b"2", delay_ms=60_000), MessageIn("t", b"2", delay_ms=9 * HOUR_MS)])
        rest = await listed(node, cursor=first.next_cursor, limit=7)
        ended = set(ids[:20:3])
        assert [view.id for view in [*first.items, *rest]] == [
            *ids[:10],
            *(id for id in ids[10:] if id not in ended),
            late[1],
        ]

    run_node(tmp_path / "n1", play)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not one of a list"),
        ("x", "not one of a list"),
        ("0" * 12 + "-" + "0" * 16, "not one of a list"),
        ("{cursor} ", "not one of a list"),
        ("{due}-{place}-00000000-{query}", "another cluster"),
        ("{due}-{place}-{cluster}-0000000000000000", "another query"),
        ("{due}-00000a0000000001-{cluster}-{query}", "names no place"),
    ],
)
def test_a_cursor_that_is_none(text: str, why: str) -> None:
    """Each is refused by its name; so is one of another query, and of another cluster."""
    query = ListQuery(topic="t")
    cursor = write_cursor(PageStart(HOUR_MS * 9 + 5, 9 << 40 | 3), query, b"c")
    assert read_cursor(cursor, replace(query, limit=7, body=False, cursor="x"), b"c") == PageStart(
        HOUR_MS * 9 + 5, 9 << 40 | 3
    )
    due, place, cluster, of_query = cursor.split("-")
    with pytest.raises(Problem, match=why):
        read_cursor(text.format(cursor=cursor, due=due, place=place, cluster=cluster, query=of_query), query, b"c")
    for other in ({"topic": "u"}, {"topic": None}, {"from_ms": 1}, {"to_ms": 1}, {"tag": "t"}, {"states": ("dead",)}):
        with pytest.raises(Problem, match="another query"):
            read_cursor(cursor, replace(query, **other), b"c")
    with pytest.raises(Problem, match="another cluster"):
        read_cursor(cursor, query, b"d")


def test_a_page_that_looks_at_much_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends after so many units or hours; the pages together miss nothing."""
    monkeypatch.setattr(message_list, "LOOK_UNITS", 4)
    monkeypatch.setattr(message_list, "TURN_HOURS", 2)

    async def play(node: Node) -> None:
        messages = [MessageIn("tu"[hour == 30], b"1", delay_ms=hour * HOUR_MS + 60_000) for hour in range(31)]
        ids = await schedule(node, messages)
        assert [view.id for view in await listed(node, limit=1_000)] == ids
        empty = await page_of(node, topic="u")
        assert (empty.items, empty.next_cursor is None) == ([], False)
        assert [view.id for view in await listed(node, topic="u")] == ids[30:]

    run_node(tmp_path / "n1", play)


def test_lists_take_turns_and_too_many_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never two in threads at once; a client that goes away stops its own."""
    monkeypatch.setattr(message_list, "WAITING_MAX", 3)
    at_once, most = 0, 0
    run = HourPage.run

    def watched(self: HourPage, stopped: Any) -> Any:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        try:
            return run(self, stopped)
        finally:
            at_once -= 1

    monkeypatch.setattr(HourPage, "run", watched)

    async def play(node: Node) -> None:
        await schedule(node, [MessageIn("t", b"1", delay_ms=60_000 + row) for row in range(9)])
        asked = [asyncio.ensure_future(page_of(node, limit=1)) for _ in range(4)]
        came = await asyncio.gather(*asked, return_exceptions=True)
        assert sum(isinstance(each, MessagePage) for each in came) == 3
        (refusal,) = (each for each in came if isinstance(each, Problem))
        assert (refusal.code, most) == ("over-limit", 1)
        with pytest.raises(Problem, match="unknown-topic"):
            await page_of(node, topic="nowhere")

    run_node(tmp_path / "n1", play)


@pytest.mark.parametrize(("states", "shown"), [(OPEN_STATES, [2, 3]), ((*OPEN_STATES, "cancelled"), [0, 2, 3])])
def test_what_changed_since_it_was_found_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, states: tuple[str, ...], shown: list[int]
) -> None:
    """A cancelled one is not open any more, and one that moved and ended elsewhere is not shown where it stood."""
    look = MessageList._look

    async def play(node: Node) -> None:
        ids = await schedule(node, [MessageIn("t", b"1", delay_ms=60_000 + row) for row in range(4)])

        async def looked(self: MessageList, *args: Any) -> Any:
            found = await look(self, *args)
            monkeypatch.setattr(MessageList, "_look", look)
            await node.front.cancel(ids[0], if_match=None, principal=ANONYMOUS)
            await node.front.reschedule(ids[1], due_ms=None, delay_ms=HOUR_MS, if_match=None, principal=ANONYMOUS)
            await node.front.cancel(ids[1], if_match=None, principal=ANONYMOUS)
            return found

        monkeypatch.setattr(MessageList, "_look", looked)
        page = await page_of(node, states=states, limit=4)
        assert [ids.index(view.id) for view in page.items] == shown

    run_node(tmp_path / "n1", play)


def test_a_lease_ahead_is_no_hand_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A strict message is leased up to 100 ms before it is due. Until the hand-over begins it is listed as waiting, as
    GET says."""

    async def play(node: Node) -> None:
        strict = TopicChange(handover="strict")
        await node.front.put_topic("t", strict, create=True, if_match=None, principal=ANONYMOUS)
        (id,) = await schedule(node, [MessageIn("t", b"1")])
        assert len(await node.front.pull(PullIn("t", 1, 5_000), ANONYMOUS)) == 1
        assert [view.state for view in (await page_of(node)).items] == ["leased"]
        monkeypatch.setattr(Strict, "leased_ahead", lambda self, position: (self.term, 1))
        (view,) = (await page_of(node)).items
        assert (view.id, view.state, view.attempt, view.handed_over_ms) == (id, "ready", 0, None)
        assert view == told((await views_of(node, [id]))[0])

    run_node(tmp_path / "n1", play)


def test_long_histories_do_not_hold_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is read in turns: 64 of them, read at once, held a leader for two seconds. Here one takes 20 ms."""
    history = Store.history

    def long(self: Store, home: int) -> Pieces[Settles]:
        for _ in range(5):
            begun_s = time.thread_time()
            while time.thread_time() - begun_s < 0.004:
                pass
            yield
        return (yield from history(self, home))

    monkeypatch.setattr(Store, "history", long)

    async def play(node: Node) -> None:
        ids = await schedule(node, [MessageIn("t", b"1", delay_ms=60_000 + row) for row in range(16)])
        for id in ids:
            await node.front.reschedule(id, due_ms=None, delay_ms=60_000, if_match=None, principal=ANONYMOUS)
        asked = asyncio.ensure_future(node.front.messages(ListQuery(), principal=ANONYMOUS))  # not a step of this test
        assert {view.revision for view in (await asked).items} == {2}

    run_node(tmp_path / "n1", play)


def test_large_records_are_read_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By their bytes, and none is read that the page has no room for."""
    read: list[int] = []
    views = MessageList._views

    def watched(self: MessageList, places: Any, *args: Any) -> Any:
        read.append(len(places))
        return views(self, places, *args)

    monkeypatch.setattr(MessageList, "_views", watched)
    monkeypatch.setattr(message_list, "PULL_BYTES_MAX", 1_000_000)

    async def play(node: Node) -> None:
        body = b'"' + b"x" * 250_000 + b'"'
        for row in range(12):
            await schedule(node, [MessageIn("t", body, delay_ms=60_000 + row)])
        assert len((await page_of(node)).items) == 3
        assert read == [4]
        read.clear()
        assert len((await page_of(node, body=False)).items) == 12
        assert read == [4, 4, 4]

    run_node(tmp_path / "n1", play)


def test_every_field_of_a_message_is_listed_as_get_shows_it(tmp_path: Path) -> None:
    """Those that few messages have, and what a copy in a dead-letter topic is a copy of."""

    async def play(node: Node) -> None:
        await put_topic(node, "t", TopicChange(retry={"max_attempts": 1}, dead_letter="dead"))
        await put_topic(node, "hooks", TopicChange(mode="push"))
        target = Target(url="https://example.com/x", method="PUT", headers={"a": "b"}, timeout_ms=9_000)
        odd = MessageIn(
            "hooks", b"\xff\x00", delay_ms=60_000, content_type="image/png", tags=("eu",), headers=packb({"h": "1"}),
            key="k", fingerprint=bytes(16), target=target, extension=packb({"retry": {"max_attempts": 3}}),
        )  # fmt: skip
        await schedule(node, [odd, MessageIn("t", b"1", delay_ms=60_000), MessageIn("t", b"2", tags=("dies",))])
        (dies,) = await node.front.pull(PullIn("t", 1, 5_000, 60_000, (("dies",),)), ANONYMOUS)
        await node.front.nack("t", [dies.receipt], delay_ms=None, principal=ANONYMOUS)
        items = list((await page_of(node)).items)
        assert {(item.topic, item.key, bool(item.target), bool(item.dead)) for item in items} == {
            ("hooks", "k", True, False), ("t", None, False, False), ("dead", None, False, True),
        }  # fmt: skip
        assert [item.extension for item in items if item.key] == [{"retry": {"max_attempts": 3}}]
        shown = await views_of(node, [item.id for item in items])
        assert items == [replace(view, history=()) for view in shown]

    run_node(tmp_path / "n1", play)
