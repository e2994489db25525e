"""The ledger over a real socket: what is asked for, how it is shown, and each fault by its name."""

import msgspec
import pytest

from api.port.ledger import ASKED_MAX, CLASSES, WINDOW_DEFAULT_MS, MessageLedger, RecordsAsked
from tests.api.harness import check_problem, run, running
from tests.api.memory_ledger import AT_MS, SIGHT, entry
from tests.api.memory_queries import NOW_MS

WINDOW = {
    "from": "2026-09-21T14:13:20.125Z",
    "to": "2026-09-21T14:13:21.125Z",
    "retained_from": "2026-09-20T14:13:20.125Z",
    "removed_until": None,
    "complete": False,
    "unreachable": [{"node": "n3", "why": "is down, or cannot be reached"}],
    "gaps": [{"node": "n2", "from": "2026-09-21T14:13:20.125Z", "to": "2026-09-21T14:13:20.130Z"}],
}
DUPLICATE = {
    "cause": "failover",
    "mode": "pull",
    "at": "2026-09-21T14:13:20.925Z",
    "node": "n2",
    "term": 5,
    "attempt": 1,
    "repeats": {"at": "2026-09-21T14:13:20.126Z", "node": "n1", "term": 4, "attempt": 1, "leased_until": None},
}


def test_a_page_shows_every_message_and_why_it_came_again() -> None:
    """With whose account is missing; the next page begins where the cursor says."""

    async def story() -> None:
        async with running() as client:
            page = (await client.send("GET", "/v1/ledger")).json
            assert page["window"] == WINDOW
            assert page["items"] == [
                {
                    "id": "A" * 26,
                    "topic": "t",
                    "class": "delivered_more",
                    "flags": ["late"],
                    "late_cause": "no_leader",
                    "lost": None,
                    "hand_overs": 2,
                    "retries": 0,
                    "created": "2026-09-21T14:13:20.120Z",
                    "asked_due": "2026-09-21T14:13:20.125Z",
                    "due": "2026-09-21T14:13:20.125Z",
                    "first_handed_over": "2026-09-21T14:13:20.126Z",
                    "lateness_ms": 1,
                    "settled": "2026-09-21T14:13:21.025Z",
                    "mode": "pull",
                    "term": 4,
                    "attempt": 1,
                    "node": "n1",
                    "code": None,
                    "duplicates": [DUPLICATE],
                }
            ]
            last = (await client.send("GET", f"/v1/ledger?cursor={page['next_cursor']}")).json
            assert (last["items"][0]["class"], last["next_cursor"]) == ("pending", None)
            summary = (await client.send("GET", "/v1/ledger/summary")).json
            assert summary == {"window": WINDOW, "scheduled": 2, "classes": {"delivered_more": 1, "pending": 1}}

    run(story())


@pytest.mark.parametrize(
    ("query", "from_ms", "to_ms"),
    [
        ("", NOW_MS + 1 - WINDOW_DEFAULT_MS, NOW_MS + 1),
        (f"?to={NOW_MS}", NOW_MS - WINDOW_DEFAULT_MS, NOW_MS),
        (f"?from={NOW_MS - 5}", NOW_MS - 5, NOW_MS + 1),
        (f"?from={NOW_MS + 5}", NOW_MS + 5, NOW_MS + 5),
        (f"?from={NOW_MS - 5}&to={NOW_MS + 9}", NOW_MS - 5, NOW_MS + 9),
    ],
)
def test_the_window(query: str, from_ms: int, to_ms: int) -> None:
    """The last hour when nothing is said; up to now from a beginning on; an hour before an end."""

    async def story() -> None:
        async with running() as client:
            await client.send("GET", "/v1/ledger" + query)
            (asked,) = client.port.asked
            assert (asked.from_ms, asked.to_ms) == (from_ms, to_ms)

    run(story())


def test_what_is_asked_for_reaches_the_node() -> None:
    """Topic, classes, limit and cursor."""

    async def story() -> None:
        async with running() as client:
            await client.send("GET", "/v1/ledger?topic=orders&class=lost,dead&limit=7&cursor=abc")
            (asked,) = client.port.asked
            assert asked.classes == ("dead", "lost")
            assert (asked.topic, asked.limit, asked.cursor) == ("orders", 7, "abc")

    run(story())


@pytest.mark.parametrize(
    ("target", "parameter", "said"),
    [
        ("/v1/ledger?class=gone", "class", ", ".join(CLASSES)),
        ("/v1/ledger?limit=0", "limit", "1 to 1000"),
        ("/v1/ledger?limit=1001", "limit", "1 to 1000"),
        ("/v1/ledger?limit=many", "limit", "whole number"),
        ("/v1/ledger?from=yesterday", "from", "RFC 3339"),
        (f"/v1/ledger?from={NOW_MS}&to={NOW_MS - 1}", "from", "not after"),
        ("/v1/ledger?topic=!", "topic", "127 characters"),
        ("/v1/ledger/summary?limit=3", "limit", "known: from, to, topic"),
    ],
)
def test_a_fault_names_its_parameter(target: str, parameter: str, said: str) -> None:
    """And what may stand there."""

    async def story() -> None:
        async with running() as client:
            reply = await client.send("GET", target)
            problem = check_problem(reply, 422, "unknown-field" if "summary" in target else "invalid-field")
            assert [error["parameter"] for error in problem["errors"]] == [parameter]
            assert said in problem["detail"]

    run(story())


def test_too_much_is_refused_by_name() -> None:
    """429, with what to do."""

    async def story() -> None:
        async with running() as client:
            client.port.too_much = True
            check_problem(await client.send("GET", "/v1/ledger"), 429, "over-limit")

    run(story())


def test_a_message_is_shown_with_its_ledger_unless_that_is_not_wanted() -> None:
    """Class, every hand-over with its outcome, duplicates with their cause; `ledger=false` and `consistency=local` ask
    no other node. What would take too much is not told, and the message is."""

    async def story() -> None:
        async with running() as client:
            id_text = (await client.send("POST", "/v1/messages", {"topic": "t", "body": 1})).json["id"]
            told = (await client.send("GET", f"/v1/messages/{id_text}")).json["ledger"]
            assert (told["class"], told["duplicates"], told["window"]) == ("delivered_more", [DUPLICATE], WINDOW)
            assert told["deliveries"] == [
                {
                    "at": "2026-09-21T14:13:20.126Z",
                    "node": "n1",
                    "term": 4,
                    "attempt": 1,
                    "mode": "pull",
                    "outcome": "unknown",
                    "ended": None,
                    "code": None,
                }
            ]
            assert not told.keys() & {"id", "topic", "due"}
            for query in ("?ledger=false", "?consistency=local", "?consistency=local&ledger=true"):
                assert "ledger" not in (await client.send("GET", f"/v1/messages/{id_text}{query}")).json
            check_problem(await client.send("GET", f"/v1/messages/{id_text}?ledger=no"), 422, "invalid-field")
            client.port.too_much = True
            message = (await client.send("GET", f"/v1/messages/{id_text}")).json
            assert message["ledger"] == {"class": None, "why": "n2: more than 4 records lie in that time"}
            assert message["id"] == id_text

    run(story())


def test_a_message_and_its_ledger_are_of_one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger asks other nodes, and the message is handed over and acked meanwhile: both are read again. Of one that
    goes on each time the ledger says nothing."""

    async def story() -> None:
        async with running() as client:
            id_text = (await client.send("POST", "/v1/messages", {"topic": "t", "body": 1})).json["id"]
            goes_on = iter(["leased", "delivered"])
            states = iter(["leased", "ready"] * 9)

            async def told(id: str) -> MessageLedger:
                kind = {"scheduled": "pending", "leased": "in_flight", "delivered": "delivered_once"}
                client.port.held[id_text].state = state = next(goes_on, client.port.held[id_text].state)
                return MessageLedger(msgspec.structs.replace(entry(id), kind=kind[state]), [], SIGHT)

            async def restless(id: str) -> MessageLedger:
                client.port.held[id_text].state = next(states)
                return MessageLedger(entry(id), [], SIGHT)

            monkeypatch.setattr(client.port, "message_ledger", told)
            message = (await client.send("GET", f"/v1/messages/{id_text}")).json
            assert (message["state"], message["ledger"]["class"]) == ("delivered", "delivered_once")
            monkeypatch.setattr(client.port, "message_ledger", restless)
            message = (await client.send("GET", f"/v1/messages/{id_text}")).json
            assert message["ledger"].keys() == {"class", "why"}
            assert message["ledger"]["class"] is None

    run(story())


@pytest.mark.parametrize(("state", "kind"), [("ready", "pending"), ("scheduled", "pending"), ("leased", "in_flight")])
def test_what_is_open_is_in_flight_if_its_records_say_that_it_is_leased(
    monkeypatch: pytest.MonkeyPatch, state: str, kind: str
) -> None:
    """Not if a leader that died may have handed it over: its lease is lost, and the message comes again."""

    async def story() -> None:
        async with running() as client:
            id_text = (await client.send("POST", "/v1/messages", {"topic": "t", "body": 1})).json["id"]
            client.port.held[id_text].state = state
            for found in ("pending", "in_flight"):

                async def told(id: str, found: str = found) -> MessageLedger:
                    return MessageLedger(msgspec.structs.replace(entry(id), kind=found), [], SIGHT)

                monkeypatch.setattr(client.port, "message_ledger", told)
                message = (await client.send("GET", f"/v1/messages/{id_text}")).json
                assert (message["state"], message["ledger"]["class"]) == (state, kind)

    run(story())


def test_a_node_answers_for_its_own_records_whether_it_leads_or_not() -> None:
    """In msgpack, also while it drains; what is no such request is refused."""

    async def story() -> None:
        async with running() as client:
            client.port.leading = False
            client.server.drain()
            headers = {"Content-Type": "application/msgpack"}
            asked = msgspec.msgpack.encode(RecordsAsked(bytes(16), AT_MS, AT_MS + 1))
            reply = await client.send("POST", "/v1/ledger/records", asked, headers)
            assert reply.status == 200
            found = msgspec.msgpack.decode(reply.body)
            assert (found["node"], found["number"], len(found["rows"]), found["holes"]) == ("n1", 1, 160, [[1, 2]])
            for homes in (bytes(7), bytes(8 * ASKED_MAX + 8)):
                bad = msgspec.msgpack.encode(RecordsAsked(homes, 0, 1))
                reply = await client.send("POST", "/v1/ledger/records", bad, headers)
                check_problem(reply, 422, "invalid-field", "/homes")
            check_problem(
                await client.send("POST", "/v1/ledger/records", b"{}", headers), 422, "invalid-field", "/homes"
            )
            check_problem(await client.send("POST", "/v1/ledger/records", b"{}"), 415, "unsupported-media-type")

    run(story())
