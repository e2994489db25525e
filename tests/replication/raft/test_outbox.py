"""What waits for the disk: it leaves when it is durable, and in the order in which it was said."""

from __future__ import annotations

from pathlib import Path

from replication.journal.journal import Journal
from replication.raft.outbox import Outbox
from replication.wire.frame import Message
from tests.replication.memory_disk import MemoryDisk


def _acknowledged(index: int) -> Message:
    return {"type": "next_node_idx", "next_node_idx": index + 1}


def test_what_waits_is_not_overtaken() -> None:
    """The sync is done and nothing was released yet: an acknowledgement made now leaves behind the older ones."""
    sent: list[tuple[str, Message]] = []

    def send(peer: str, message: Message) -> bool:
        sent.append((peer, message))
        return True

    journal = Journal.open(Path("journal"), disk=MemoryDisk())
    outbox = Outbox(journal, send)
    journal.add(b"one", 1, 1)
    outbox.send("n2", _acknowledged(1))
    journal.add(b"two", 2, 1)
    outbox.send("n2", _acknowledged(2))
    outbox.send("n2", {"type": "census"})
    assert sent == [("n2", {"type": "census"})], "what promises nothing waits for nobody"
    outbox.release()
    assert len(sent) == 1
    journal.sync_now()
    outbox.send("n2", _acknowledged(2) | {"seq": 2})
    assert len(sent) == 1
    outbox.release()
    assert [message for _peer, message in sent[1:]] == [
        _acknowledged(1),
        _acknowledged(2),
        _acknowledged(2) | {"seq": 2},
    ]
    outbox.send("n2", _acknowledged(2) | {"seq": 3})
    assert len(sent) == 5, "nothing waits"
    journal.close()
