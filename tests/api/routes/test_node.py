"""The routes about the node itself, answered with and without a leader."""

from tests.api.harness import run, running


def test_with_a_leader() -> None:
    """Live, ready, metrics and the cluster's document."""

    async def story() -> None:
        async with running() as client:
            live = await client.send("GET", "/livez")
            assert (live.status, live.body) == (200, b"ok\n")
            ready = await client.send("GET", "/readyz")
            assert (ready.status, ready.body) == (200, b"ready\n")
            verbose = await client.send("GET", "/readyz?verbose")
            assert verbose.body == b"[+] applied: ok\n[+] leader: ok\nready\n"
            metrics = await client.send("GET", "/metrics?ignored=1")
            assert (metrics.status, metrics.body) == (200, b"hourwheel_up 1\n")
            assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
            cluster = await client.send("GET", "/v1/cluster")
            assert cluster.json == {"cluster_id": "c", "leader": "n1", "term": 7, "nodes": []}
            for reply in (live, ready, metrics, cluster):
                assert reply.headers["hourwheel-node"] == "n1"

    run(story())


def test_without_a_leader() -> None:
    """The node says what is missing, with Retry-After, and goes on answering for itself; nothing is passed on."""

    async def story() -> None:
        async with running() as client:
            client.port.leading = False
            client.port.known_leader = None
            ready = await client.send("GET", "/readyz")
            assert (ready.status, ready.body) == (503, b"leader: no leader is known\nnot ready\n")
            assert ready.headers["retry-after"] == "1"
            verbose = await client.send("GET", "/readyz?verbose")
            assert verbose.body == b"[+] applied: ok\n[-] leader: no leader is known\nnot ready\n"
            for path in ("/livez", "/metrics", "/v1/cluster"):
                assert (await client.send("GET", path)).status == 200
            assert client.port.forwarded == []

    run(story())


def test_head() -> None:
    """HEAD is GET without the body."""

    async def story() -> None:
        async with running() as client:
            reply = await client.send("HEAD", "/livez")
            assert (reply.status, reply.body, reply.headers["content-length"]) == (200, b"", "3")

    run(story())
