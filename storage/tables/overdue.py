"""The rule of a restored cluster for messages that became due while it was down: a row of `meta`, until it is done.

`hourwheel restore` writes the rule. The first leader fixes the moment from which it counts (`cutoff_ms`, by its clock,
replicated). Each leader after that gives up the messages that were due before it. See node/leader/restored_overdue.py.
Without a row every message is delivered.
"""

from typing import Final

import msgspec

from storage.lmdb.table import Table

_KEY: Final = b"catch_up"


class OverdueRule(msgspec.Struct, frozen=True, kw_only=True):
    """Says which overdue messages a restored cluster gives up: those due more than `last_ms` before its first leader
    began, by that leader's clock.

    With `last_ms` 0 these are all overdue messages. `cutoff_ms` is the time before which a message must be due for
    that. It is None until the first leader has set it.
    """

    last_ms: int
    cutoff_ms: int | None = None


_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")
_DECODER: Final = msgspec.msgpack.Decoder(OverdueRule)


def read_overdue_rule(meta: Table) -> OverdueRule | None:
    """The rule that still has to be applied. None if there is none, or if it was applied."""
    row = meta.get(_KEY)
    return None if row is None else _DECODER.decode(row)


def write_overdue_rule(meta: Table, rule: OverdueRule | None) -> None:
    """Set the rule. None removes it, because it was applied."""
    if rule is None:
        meta.drop(_KEY)
    else:
        meta.put(_KEY, _ENCODER.encode(rule))
