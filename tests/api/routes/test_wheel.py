"""An hour of the wheel, over a real socket: what is asked for, what is answered, and each fault by its name."""

import pytest

from api.port.timestamp import render_time
from tests.api.harness import check_problem, run, running
from tests.api.memory_queries import NOW_MS

HOUR_MS = 3_600_000


def test_an_hour() -> None:
    """The present one, or the one that holds a time; of all topics, or of one."""

    async def story() -> None:
        async with running() as client:
            for topic, delay in (("a", "0s"), ("b", "0s"), ("a", "10s"), ("a", "1h")):
                await client.send("POST", "/v1/messages", {"topic": topic, "body": 1, "delay": delay})
            now_s = NOW_MS // 1000
            for query, hour, wanted in (
                ("", 0, {now_s: 2, now_s + 10: 1}),
                ("?topic=b", 0, {now_s: 1}),
                (f"?hour={NOW_MS + HOUR_MS}", 1, {now_s + 3600: 1}),
                (f"?hour={NOW_MS - HOUR_MS}", -1, {}),
            ):
                reply = await client.send("GET", f"/v1/wheel{query}")
                assert (reply.status, reply.json) == (
                    200,
                    {
                        "hour": render_time((NOW_MS // HOUR_MS + hour) * HOUR_MS),
                        "tick": render_time(now_s * 1000),
                        "seconds": [
                            {"second": render_time(second * 1000), "open": count, "units": count}
                            for second, count in wanted.items()
                        ],
                    },
                )

    run(story())


@pytest.mark.parametrize(
    ("query", "status", "code", "parameter"),
    [
        ("hour=5", 422, "invalid-field", "hour"),
        ("hour=soon", 422, "invalid-field", "hour"),
        ("topic=a%20b", 422, "invalid-field", "topic"),
        ("from=1800000000000", 422, "unknown-field", "from"),
        ("topic=nowhere", 404, "unknown-topic", None),
    ],
)
def test_faults(query: str, status: int, code: str, parameter: str | None) -> None:
    """Each names the parameter."""

    async def story() -> None:
        async with running() as client:
            problem = check_problem(await client.send("GET", f"/v1/wheel?{query}"), status, code)
            assert [error["parameter"] for error in problem.get("errors", [])] == ([parameter] if parameter else [])

    run(story())
