"""What only the simulator can see: the insides of nodes, at their true moment.

On real processes there are none of these events, and the checkers that ask for them have nothing to judge.
"""

from chaos.history.seen import Seen


class Begun(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """A node wrote down that it begins a hand-over. `at_ms` by its own clock; `wall_ms` is the truth. `due_ms`: of the
    unit, by that node's records. `median_ahead_ms`: how far the median of the nodes' clocks is ahead of the truth, as
    far as this one can hear them, at the most within the last second; None: not told. `known_s`: how long ago it heard
    what its clock is bound by. `leased_until_ms`: by the log, 0 where that has no lease yet."""

    node: str
    message_id: str
    term: int
    attempt: int
    at_ms: int
    asked_due_ms: int
    pushed: bool
    due_ms: int = 0
    median_ahead_ms: float | None = None
    known_s: float = 0.0
    leased_until_ms: int = 0


class Ended(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """A node wrote down that a push failed, as far as it knows: its receiver may have taken it all the same."""

    node: str
    message_id: str
    term: int
    attempt: int


class Settled(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """The first node that applied an entry put down what it did with a message: by `what`, a state of
    storage.format.rows, and `code`, of the hand-over (term, attempt)."""

    message_id: str
    index: int
    what: int
    term: int
    attempt: int
    code: int


class Crashed(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """A node ended by itself. `expected`: a fault that was put on its disk explains it. A callback's or request's
    exception, which a node survives, is told of in the same way."""

    node: str
    error: str
    expected: bool


class Applied(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """A node applied the entry at `index`: of `term`, with this checksum, the rolling hash after it.

    What the entry did is told by the first node that applied it, else empty: `stamp_ms` (of the leader, 0: not told),
    the dispatch state it left if it changed, `realigned` if that was by a Realign, and the units it made as pairs of
    (position, due_ms). `shown_ms`: the latest time from which the clock of its term's leader was set back while it led;
    0: it never was. `version`: the entry's; `raises`: whether it is there to raise the level of the cluster.
    """

    node: str
    index: int
    term: int
    crc: int
    rolling: str
    stamp_ms: int = 0
    state: tuple[int, int, int] | None = None
    realigned: bool = False
    units: tuple[tuple[int, int], ...] = ()
    shown_ms: int = 0
    version: int = 1
    raises: bool = False


class Intruded(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """A node let a stranger in, or heard a message of one (chaos/simulator/faults/stranger.py). `what`: which. `moved`:
    what was another right behind it, empty if nothing was."""

    node: str
    knows: str
    what: str
    moved: str = ""


class Raised(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """A leader proposes that the level of the cluster rises to `level`. `heard`: of each other member the newest
    version of entries that it reads, by the last hello that this node heard of it; 0: it heard none, or is not
    connected with it."""

    node: str
    level: int
    heard: tuple[tuple[str, int], ...]


class LevelAsked(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """An answer to somebody who asked for a level: `level` as it is then, or the member that was named as the one that
    reads at most `reads` (0: it is not connected). `older`: who was of an older build lately. All empty: refused for
    another reason, or unknown."""

    level: int = 0
    lags: str = ""
    reads: int = 0
    older: tuple[str, ...] = ()


class LeftOut(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """A leader proposed a dispatch state that names this open unit, due before slot `tick`, and had not dispatched
    it."""

    node: str
    term: int
    position: int
    due_ms: int
    tick: int


class SetBack(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """A node wrote down a hand-over of the unit at `position` that is older than the newest it knew: `fence`, (term,
    attempt), after `newest`."""

    node: str
    position: int
    fence: tuple[int, int]
    newest: tuple[int, int]


class Sure(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """At this moment this node trusts in its own leadership: it would hand over."""

    node: str
    term: int


class Promoted(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """A node begins a term as leader. `open_ids`: messages that by its records are due, and neither leased nor settled.
    `given`: by the leader before; else it was elected."""

    node: str
    term: int
    open_ids: tuple[str, ...]
    given: bool = True


class Digest(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """At the end, all healed: the hash of what a node has on its disk at `applied_index`; `damage` is what a look at
    every checksum found wrong.
    """

    node: str
    applied_index: int
    digest: str
    damage: tuple[str, ...] = ()
