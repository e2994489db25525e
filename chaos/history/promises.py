"""The promises that checkers judge, each in a sentence for people. Verdicts and plans name them by their short keys."""

from typing import Final, NamedTuple


class Promise(NamedTuple):
    """A promise in a few words, for a line of its own, and in a sentence."""

    short: str
    sentence: str


PROMISES: Final[dict[str, Promise]] = {
    "L": Promise("nothing is lost", "every acknowledged message was delivered, or may have been cancelled"),
    "U": Promise(
        "nothing unasked", "no message was delivered that nobody scheduled, or after a cancel that was granted"
    ),
    "W": Promise("nothing is early", "no message was delivered before its due time"),
    "P": Promise("pushes are on record", "the node that sent a webhook has its start in its delivery log"),
    "D": Promise(
        "duplicates are explained", "each repeated delivery has a cause, and a failover repeats at most 50 ms"
    ),
    "H": Promise("nodes agree", "all nodes hold the same files and the same state"),
    "S": Promise("one leader a term", "each term has one leader, and terms never go back"),
    "T": Promise("transfers repeat nothing", "a planned change of leader lost nothing and repeated nothing"),
    "R": Promise("service comes back", "after each fault messages are acknowledged and delivered on time again"),
    "ids": Promise("ids are for ever", "each message keeps its id, and no id is given twice"),
    "linear": Promise(
        "one end a message", "cancel, reschedule and ack each took effect at one moment, as they answered"
    ),
    "alive": Promise("nodes stay up", "no node ended by itself but for what was done to its disk"),
    "answers": Promise("answers are true", "what nodes said for certain was so"),
    "committed": Promise("the log stays", "what one node applied from the log, every node applied"),
    "state": Promise("dispatch is exact", "no message was counted as dispatched before it was due"),
    "door": Promise("strangers change nothing", "nothing that a stranger sent moved a term, a vote or a member"),
    "held": Promise("nobody waits long", "no single step kept a node from answering for long"),
    "keys": Promise("a key has one holder", "a message replaced or extended the one message that had its key"),
    "whole_batches": Promise("a batch is whole", "an atomic batch was written whole, or not at all"),
    "levels": Promise("upgrades wait", "nothing new was written before every member could read it"),
    "many_moves": Promise("an operation moves its set", "many were moved at once: all that matched, and no others"),
    "operations": Promise("an operation takes its set", "many were cancelled at once: all that matched, and no others"),
    "promotion": Promise(
        "a new leader forgets nothing", "what was open when a term began was delivered in it or later"
    ),
    "trust": Promise("one leader at a time", "no two nodes were sure to lead at one moment"),
    "yields": Promise(
        "a bad leader is replaced", "each leader that was gone or had a wrong clock was followed by another"
    ),
    "restored": Promise("a backup is honest", "a restored cluster claims nothing of what happened after its backup"),
    "end": Promise("the run ends", "the run came to its end"),
}
