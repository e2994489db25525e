"""How many messages there are, over a real socket: what is asked for, what is answered, and each fault by its name."""

import pytest

from api.port.message import MessagePage
from api.port.queries import HISTOGRAM_BUCKETS_MAX, Histogram, MessageCount
from api.port.timestamp import render_time
from storage.format.states import STANDINGS
from tests.api.harness import Client, check_problem, run, running
from tests.api.memory_queries import NOW_MS


async def _fill(client: Client) -> None:
    """Due now, in 1, 2 .. 5 minutes; every other one tagged eu; the last one of topic b, and one cancelled."""
    for minute in range(6):
        sent = {"topic": "ab"[minute == 5], "body": 1, "delay": f"{minute}m", "tags": ["eu", "ü"][: 1 - minute % 2]}
        await client.send("POST", "/v1/messages", sent)
    await client.send("DELETE", "/v1/messages/" + "0" * 25 + "1")


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("", 5),
        ("?topic=a", 4),
        ("?topic=b&tag=eu", 0),
        ("?tag=eu", 3),
        ("?state=ready", 1),
        ("?state=scheduled", 4),
        ("?state=scheduled,cancelled", 5),
        ("?state=" + ",".join(STANDINGS), 6),
        ("?state=dead", 0),
        (f"?from={NOW_MS + 60_000}", 4),
        (f"?to={NOW_MS + 180_000}", 2),
        (f"?from={NOW_MS}&to={NOW_MS}", 0),
        ("?from=2026-11-21T02:12:20.125Z&to=2026-11-21T03:14:20.125%2B01:00", 2),
    ],
)
def test_count(query: str, count: int) -> None:
    """By topic, window of due times (`from` within, `to` not), tag and states; those not ended if none is named."""

    async def story() -> None:
        async with running() as client:
            await _fill(client)
            reply = await client.send("GET", f"/v1/messages/count{query}")
            assert (reply.status, reply.json) == (200, {"count": count})

    run(story())


def test_histogram() -> None:
    """Buckets with their beginnings, and their step, which is chosen if none is given."""

    async def story() -> None:
        async with running() as client:
            await _fill(client)
            minute = NOW_MS // 60_000 * 60_000
            quarter = NOW_MS // 900_000 * 900_000 - minute
            for query, step, buckets in (
                ("?step=1m", "1m", {0: 1, 120_000: 1, 180_000: 1, 240_000: 1, 300_000: 1}),
                ("?topic=a&step=2m&tag=eu", "2m", {0: 1, 120_000: 1, 240_000: 1}),
                ("?state=cancelled&step=60000", "1m", {60_000: 1}),
                ("", "15m", {quarter: 4, quarter + 900_000: 1}),
            ):
                reply = await client.send("GET", f"/v1/messages/histogram{query}")
                shape = [{"from": render_time(minute + after), "count": count} for after, count in buckets.items()]
                assert (reply.status, reply.json) == (200, {"step": step, "buckets": shape})
            for path in ("count", "histogram"):
                check_problem(await client.send("GET", f"/v1/messages/{path}?topic=nowhere"), 404, "unknown-topic")
            check_problem(await client.send("POST", "/v1/messages/count"), 405, "method-not-allowed")

    run(story())


@pytest.mark.parametrize(
    ("query", "code", "parameter", "says"),
    [
        ("topic=", "invalid-field", "topic", "1 to 127"),
        ("topic=a%20b", "invalid-field", "topic", "1 to 127"),
        ("from=5", "invalid-field", "from", "seconds"),
        ("to=soon", "invalid-field", "to", "RFC 3339"),
        ("to=2026-11-21T03:10:21+01:00", "invalid-field", "to", "%2B"),
        (f"from={NOW_MS}&to={NOW_MS - 1}", "invalid-field", "from", "not after to"),
        ("tag=", "invalid-field", "tag", "1 to 64 bytes"),
        ("tag=a%00", "invalid-field", "tag", "control"),
        ("state=", "invalid-field", "state", "scheduled, ready, leased"),
        ("state=ready,", "invalid-field", "state", 'got ""'),
        ("state=Ready", "invalid-field", "state", 'got "Ready"'),
        ("state=half", "not-supported-yet", "state", "not supported yet"),
        ("limit=5", "unknown-field", "limit", "known: topic, from, to, tag, state"),
        ("step=0", "invalid-field", "step", "1ms to 3650d"),
        ("step=3651d", "invalid-field", "step", "1ms to 3650d"),
        ("step=-1", "invalid-field", "step", "whole number with one unit"),
        ("step=1.5m", "invalid-field", "step", "whole number with one unit"),
        ("step=", "invalid-field", "step", "whole number with one unit"),
        (f"from={NOW_MS}&to={NOW_MS + 1001 * 60_000}&step=1m", "invalid-field", "step", "takes 1001 buckets of 1m"),
        (f"from={NOW_MS}&to={NOW_MS + 10_001}&step=10ms", "invalid-field", "step", "a step of 11ms or more"),
    ],
)
def test_bad_queries(query: str, code: str, parameter: str, says: str) -> None:
    """Each parameter at fault is named, with its limit."""

    async def story() -> None:
        async with running() as client:
            problem = check_problem(await client.send("GET", f"/v1/messages/histogram?{query}"), 422, code, "")
            (error,) = problem["errors"]
            assert error["parameter"] == parameter
            assert says in error["detail"]

    run(story())


def test_all_faults_at_once() -> None:
    """Three parameters at fault are three errors; what is wrong goes before what is to come; a count knows no step."""

    async def story() -> None:
        async with running() as client:
            problem = check_problem(
                await client.send("GET", "/v1/messages/count?state=half&from=5&topic=-"), 422, "invalid-field"
            )
            assert {error["parameter"] for error in problem["errors"]} == {"state", "from", "topic"}
            assert "2 more" in problem["detail"]
            problem = check_problem(await client.send("GET", "/v1/messages/count?step=1m"), 422, "unknown-field", "")
            assert problem["errors"][0]["parameter"] == "step"

    run(story())


def test_the_widest_window() -> None:
    """As many buckets as there may be are not refused."""

    async def story() -> None:
        async with running() as client:
            window = f"from={NOW_MS}&to={NOW_MS + HISTOGRAM_BUCKETS_MAX}&step=1"
            assert (await client.send("GET", f"/v1/messages/histogram?{window}")).status == 200

    run(story())


def test_what_a_running_cancel_has_yet_to_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts, histograms and lists say it. The field is left out if it is 0."""

    async def story() -> None:
        async with running() as client:
            for path in ("/v1/messages/count", "/v1/messages/histogram", "/v1/messages"):
                assert "settling" not in (await client.send("GET", path)).json
            answers = {
                "count": MessageCount(5, settling=2),
                "histogram": Histogram(1_000, [], settling=3),
                "messages": MessagePage([], settling=4),
            }
            for name, answer in answers.items():

                async def said(*asked: object, answer: object = answer, **more: object) -> object:
                    return answer

                monkeypatch.setattr(client.port, name, said)
            assert (await client.send("GET", "/v1/messages/count")).json == {"count": 5, "settling": 2}
            assert (await client.send("GET", "/v1/messages/histogram")).json["settling"] == 3
            assert (await client.send("GET", "/v1/messages")).json["settling"] == 4

    run(story())
