"""The receiver process and what is read from its log."""

import urllib.request
from pathlib import Path

from bench.client.receivers import Received, Receivers, firsts, repeats


def received(ms: float, message_id: str | None, term: int = 1, attempt: int = 1) -> Received:
    """One delivery."""
    return Received(received_ms=ms, port=1, status=200, id=message_id, term=term, attempt=attempt)


def test_log_is_read_as_it_grows(tmp_path: Path) -> None:
    """Each request once, with its port; the process ends with the block."""
    with Receivers(tmp_path / "log", 2) as listening:
        assert listening.poll() == 0
        for place, url in enumerate(listening.urls * 2):
            headers = {"webhook-id": f"0{place}", "Hourwheel-Due": "2026-11-21T02:10:20.125Z"}
            with urllib.request.urlopen(urllib.request.Request(url, data=b"{}", headers=headers), timeout=10) as answer:
                assert answer.status == 200
            assert listening.poll() == place + 1
        assert [one.id for one in listening.received] == ["00", "01", "02", "03"]
        ports = [int(url.rpartition(":")[2]) for url in listening.urls]
        assert [one.port for one in listening.received] == ports * 2
        first = listening.received[0]
        assert first.late_ms == first.received_ms - 1_795_227_020_125
    (tmp_path / "log").unlink()


def test_line_that_is_still_written_is_left_for_later(tmp_path: Path) -> None:
    """Half a line is no line yet."""
    log = tmp_path / "log"
    listening = Receivers(log)
    log.write_bytes(b'{"received_ms":1.0,"port":1,"status":200}\n{"received_ms":2.0,')
    assert listening.poll() == 1
    with log.open("ab") as file:
        file.write(b'"port":1,"status":200}\n')
    assert listening.poll() == 2


def test_first_of_each_id() -> None:
    """Requests without an id are no deliveries."""
    assert firsts([received(1, "a"), received(2, None), received(3, "a")]) == {"a": received(1, "a")}


def test_repeats_and_their_span() -> None:
    """The span is of what was repeated, where it was first delivered, and by the term that delivered it."""
    log = [received(100, "a"), received(110, "b"), received(130, "c"), received(900, "d", 2)]
    assert (repeats(log).count, repeats(log).span_ms) == (0, 0.0)
    log += [received(1_000, "a", 2), received(1_001, "c", 2), received(1_002, "d", 2, 2), received(1_003, "c", 2, 2)]
    found = repeats(log)
    assert found.count == 4
    assert found.span_ms == 101.0  # term 2 delivered d at 900 and c at 1,001, both repeated
    assert repeats(log[:6]).span_ms == 30.0


def test_repeats_at_the_end_of_a_lease_are_counted_apart() -> None:
    """Their answer was lost, not their hand-over: they belong to no span."""
    log = [received(100, "a"), received(130, "b"), received(1_000, "a", 2), received(7_120, "b", 2, 2)]
    found = repeats(log, lease_s=7.0)
    assert (found.count, found.span_ms, found.after_lease) == (1, 0.0, 1)
    assert (repeats(log).count, repeats(log).span_ms) == (2, 30.0)
