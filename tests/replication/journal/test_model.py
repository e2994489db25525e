"""The journal against a list, over random calls, syncs, kills and power cuts at any moment."""

from random import Random

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from replication.journal.segment import Entry
from tests.examples import examples
from tests.replication.journal_model import Model
from tests.replication.memory_disk import MemoryDisk

few = st.integers(0, 6)


class JournalMachine(RuleBasedStateMachine):
    """What pysyncobj, the Raft group and the world may do to a journal. A command follows from its index and term."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model(MemoryDisk())
        self.model.start()

    def entry(self, index: int, term: int) -> Entry:
        """The one entry with this index and term, as Raft guarantees."""
        return (b"%d.%d." % (index, term) * (index * 7 % 40), index, term)

    @rule(count=few, again=st.booleans())
    def lead(self, count: int, again: bool) -> None:
        """A leader appends, in a new term or not."""
        model = self.model
        model.set_commit(model.commit)
        term = max(model.term, model.log[-1][2] if model.log else 0)
        if not again:
            term += 1
            model.set_term(term, "me")
        for _ in range(count):
            model.add(self.entry(model.log[-1][1] + 1 if model.log else model.journal.last_index + 1, term))

    @rule(back=few, same=few, new=few, committed=st.booleans())
    def follow(self, back: int, same: int, new: int, committed: bool) -> None:
        """An append_entries message, as pysyncobj handles one: delete, add, commit."""
        model = self.model
        model.set_commit(model.commit)
        if not model.log:
            return
        position = max(len(model.log) - 1 - back, 0)
        known = model.log[position + 1 : position + 1 + same]
        verified = position + len(known)
        contradicted = model.log[verified + 1 :] and new
        if contradicted and model.log[verified][1] < model.commit:
            return
        term = max(model.term, model.log[-1][2]) + 1
        if new:
            model.set_term(term, None)
        if position + 1 < len(model.log):
            model.delete_from(position + 1)
            model.check()
        for entry in known:
            model.add(entry)
        for index in range(model.log[-1][1] + 1, model.log[-1][1] + 1 + new):
            model.add(self.entry(index, term))
        model.check()
        model.set_commit(min(model.log[-1][1], model.commit + 3) if committed else model.commit)

    @rule(at=few, ahead=few, known=st.booleans())
    def install(self, at: int, ahead: int, known: bool) -> None:
        """A snapshot: clear, then two entries, in the log or past it."""
        model = self.model
        model.set_commit(model.commit)
        if known and len(model.log) > at + 1:
            pair = model.log[at : at + 2]
        else:
            index, term = model.journal.last_index + 1 + ahead, model.term + 1
            model.set_term(term, None)
            pair = [self.entry(index, term), self.entry(index + 1, term)]
        model.clear()
        model.check()
        for entry in pair:
            model.add(entry)
            model.check()
        model.set_commit(pair[1][1])

    @rule(voter=st.booleans(), vote=st.sampled_from(["n1", "n2", None]), step=st.integers(0, 1))
    def promise(self, voter: bool, vote: str | None, step: int) -> None:
        """Term, vote, and once in a life the right to vote."""
        self.model.set_term(self.model.term + step, vote)
        if voter:
            self.model.set_voter()

    @rule()
    def timer(self) -> None:
        """A second passes."""
        self.model.timer()

    @rule(back=few)
    def trim(self, back: int) -> None:
        """A checkpoint is durable."""
        self.model.trim(max(self.model.journal.last_index - back, 0))

    @rule(position=st.integers(0, 3))
    def delete_to(self, position: int) -> None:
        """pysyncobj's own trim; never all of the log."""
        if position < len(self.model.log):
            self.model.delete_to(position)

    @rule()
    def collect(self) -> None:
        """A sync begins."""
        self.model.collect()

    @rule()
    def run(self) -> None:
        """A sync ends."""
        self.model.run()

    @rule(call=st.integers(0, 9), torn=st.integers(0, 200), seed=st.none() | st.integers(0, 1 << 16))
    def crash(self, call: int, torn: int, seed: int | None) -> None:
        """The process dies, perhaps within a sync, perhaps with the machine."""
        self.model.set_commit(self.model.commit)
        if call:
            self.model.stop_in_sync(call, torn)
        self.model.crash(None if seed is None else Random(seed))

    @rule()
    def close(self) -> None:
        """A restart in peace: all is there."""
        model = self.model
        model.set_commit(model.commit)
        model.write()
        state = model.history[model.seq]
        model.journal.close()
        model.crash(None)
        assert model.history[model.seq][1:] == state[1:]
        assert list(state[0])[-len(model.log) :] == model.log or not state[0]

    @invariant()
    def same(self) -> None:
        """Both tell the same."""
        self.model.check()


JournalMachine.TestCase.settings = examples(150, stateful_step_count=40)
test_the_journal_is_a_list = JournalMachine.TestCase
