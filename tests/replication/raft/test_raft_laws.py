"""Every flaw of the library that is known has a test that shows it on the library and a test that ours has not got it.

The table is the contract: a row without a control, or with a name that is no test any more, fails here. Controls run
the plain library (stock_cluster.py, the stock journal); where one test runs both, it is named twice.
"""

import importlib
import inspect
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import replication
from replication.raft import pysyncobj_core as core
from tests.replication.sim_network import SimNetwork

LAWS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "R1": (
        "nothing that depends on a write leaves before it is on disk",
        ("journal.test_stock.test_r1_stock_never_syncs", "journal.test_repair_log.test_r1_power_cut_after_success"),
        (
            "journal.test_repair_log.test_r1_power_cut_after_success",
            "journal.test_repair_log.test_r1_nothing_leaves_before_its_write",
            "journal.test_repair_log.test_r1_leader_counts_its_own_copy_when_durable",
            "journal.test_stock.test_r1_what_is_durable_survives_a_power_cut",
        ),
    ),
    "R2": (
        "acknowledged entries are not cut by a message that repeats them",
        (
            "journal.test_stock.test_r2_stock_loses_what_an_old_message_does_not_repeat",
            "journal.test_repair_log.test_r2_acknowledged_entries_survive_late_resends",
        ),
        (
            "journal.test_stock.test_r2_an_old_message_takes_nothing",
            "journal.test_repair_log.test_r2_acknowledged_entries_survive_late_resends",
            "journal.test_repair_log.test_r2_commit_index_covers_only_what_the_message_proves",
        ),
    ),
    "R3": (
        "an entry is sent once",
        ("journal.test_repair_log.test_r3_every_entry_is_sent_once",),
        ("journal.test_repair_log.test_r3_every_entry_is_sent_once",),
    ),
    "R4": (
        "a follower with a conflict and a backlog recovers",
        ("journal.test_repair_log.test_r4_follower_with_a_conflict_and_a_backlog_recovers",),
        ("journal.test_repair_log.test_r4_follower_with_a_conflict_and_a_backlog_recovers",),
    ),
    "R5": (
        "answers carry their term, and a vote counts once",
        (
            "election.test_repair_election.test_r5_a_vote_counts_once",
            "election.test_repair_election.test_r5_answers_of_another_term_are_dropped",
        ),
        (
            "election.test_repair_election.test_r5_a_vote_counts_once",
            "election.test_repair_election.test_r5_answers_of_another_term_are_dropped",
        ),
    ),
    "R6": (
        "a node that was away deposes nobody",
        (
            "election.test_repair_election.test_r6_a_paused_follower_keeps_the_term",
            "election.test_repair_election.test_r6_a_partial_partition_keeps_the_term",
        ),
        (
            "election.test_repair_election.test_r6_a_paused_follower_keeps_the_term",
            "election.test_repair_election.test_r6_a_partial_partition_keeps_the_term",
            "election.test_repair_election.test_r6_a_follower_that_hears_nothing_keeps_the_term",
        ),
    ),
    "R7": (
        "a leader that is cut off steps down before another is elected",
        ("election.test_repair_election.test_r7_a_cut_off_leader_steps_down",),
        ("election.test_repair_election.test_r7_a_cut_off_leader_steps_down",),
    ),
    "R8": (
        "a stale leader is told",
        ("election.test_repair_election.test_r8_a_stale_leader_is_told",),
        ("election.test_repair_election.test_r8_a_stale_leader_is_told",),
    ),
    "R9": (
        "trimming the log may be stopped anywhere",
        ("journal.test_stock.test_r9_stock_loses_the_log_when_it_dies_within_a_trim",),
        ("journal.test_stock.test_r9_a_trim_may_die_at_every_step", "journal.test_install.test_stopped_at_every_call"),
    ),
    "R10": (
        "a damaged snapshot is told and never served",
        ("raft.test_repair_member.test_r10_stock_loads_a_damaged_snapshot",),
        ("raft.test_repair_member.test_r10_a_damaged_checkpoint_is_told_and_never_served",),
    ),
    "R11": (
        "the commit index is never past the log",
        (
            "journal.test_stock.test_r11_stock_keeps_a_commit_index_past_the_log",
            "journal.test_repair_log.test_r11_commit_index_past_the_log",
        ),
        (
            "journal.test_stock.test_r11_the_commit_index_stays_within_the_log",
            "journal.test_repair_log.test_r11_commit_index_past_the_log",
        ),
    ),
    "R12": (
        "an exception in apply ends the node",
        ("apply.test_repair_apply.test_r12_an_exception_in_apply_ends_the_node",),
        ("apply.test_repair_apply.test_r12_an_exception_in_apply_ends_the_node",),
    ),
    "R13": (
        "what the proposer is told is true",
        ("apply.test_repair_apply.test_r13_outcomes_are_true",),
        (
            "apply.test_repair_apply.test_r13_outcomes_are_true",
            "apply.test_repair_apply.test_r13_overwritten_is_not_leader",
            "apply.test_repair_apply.test_r13_unknown_after_the_deadline_and_at_the_end",
            "apply.test_repair_apply.test_r13_only_the_leader_proposes",
        ),
    ),
    "R14": (
        "a full disk is an error, not a signal; a torn tail opens",
        (
            "journal.test_stock.test_r14_stock_dies_of_a_full_disk",
            "journal.test_stock.test_r14_stock_ends_at_4_gib_and_is_not_opened_after_a_crash_at_birth",
        ),
        (
            "journal.test_stock.test_r14_a_full_disk_is_a_clean_error",
            "journal.test_stock.test_r14_a_failed_write_is_a_clean_error",
        ),
    ),
    "R15": (
        "nothing from the wire is unpickled, nothing is allocated on a stranger's word",
        (
            "wire.test_repair_wire.test_r15_nothing_from_the_wire_is_unpickled",
            "wire.test_repair_wire.test_r15_a_length_is_checked_before_memory_is_taken",
        ),
        (
            "wire.test_repair_wire.test_r15_nothing_from_the_wire_is_unpickled",
            "wire.test_repair_wire.test_r15_a_length_is_checked_before_memory_is_taken",
        ),
    ),
    "R16": (
        "a shortage of descriptors passes, a healed link is used at once",
        (
            "wire.test_repair_wire.test_r16_a_shortage_of_descriptors_passes",
            "wire.test_repair_wire.test_r16_the_pause_between_attempts_is_short",
        ),
        (
            "wire.test_repair_wire.test_r16_a_shortage_of_descriptors_passes",
            "wire.test_repair_wire.test_r16_the_pause_between_attempts_is_short",
        ),
    ),
    "R17": (
        "memory, files and send buffers are bounded",
        (
            "journal.test_stock.test_r17_stock_keeps_all_in_memory_and_never_shrinks",
            "wire.test_repair_wire.test_r17_what_waits_for_a_slow_follower_is_bounded",
        ),
        (
            "journal.test_stock.test_r17_memory_and_files_are_bounded",
            "wire.test_repair_wire.test_r17_what_waits_for_a_slow_follower_is_bounded",
        ),
    ),
    "R18": (
        "a large entry goes whole",
        ("journal.test_repair_log.test_r18_large_entries_go_whole",),
        ("journal.test_repair_log.test_r18_large_entries_go_whole",),
    ),
    "R19": (
        "commands are named by their bytes, settings are checked",
        (
            "apply.test_repair_apply.test_r19_commands_are_named_by_their_bytes",
            "apply.test_repair_apply.test_r19_settings_and_version_are_checked",
        ),
        (
            "apply.test_repair_apply.test_r19_commands_are_named_by_their_bytes",
            "apply.test_repair_apply.test_r19_settings_and_version_are_checked",
        ),
    ),
    "R20": (
        "a new member counts when it has caught up",
        ("raft.test_repair_member.test_r20_stock_counts_a_new_member_at_once",),
        (
            "raft.test_repair_member.test_r20_a_new_member_counts_when_it_has_caught_up",
            "raft.test_members_model.test_a_learner_is_no_part_of_any_majority",
        ),
    ),
}
"""Row: the law, controls that show the library break it, tests that ours keeps it."""

_STOCK = re.compile(r"\bstock|[Ss]tock\(|StockJournal|pysyncobj")


def test_every_row_is_there() -> None:
    """R1 to R20, none left out."""
    assert list(LAWS) == [f"R{number}" for number in range(1, 21)]


@pytest.mark.parametrize("row", LAWS)
def test_a_row_has_its_tests(row: str) -> None:
    """They exist, and each control runs the library as it ships."""
    _law, controls, ours = LAWS[row]
    assert controls
    assert ours
    for name in (*controls, *ours):
        test = _find(name)
        assert test.__doc__, name
    for name in controls:
        assert _STOCK.search(inspect.getsource(_find(name))), f"{name} runs no stock library"


def test_the_random_model_has_its_control() -> None:
    """The model that finds nothing in ours is run against the library, and must find something, in every run."""
    source = inspect.getsource(_find("raft.test_model.test_the_model_can_fail"))
    assert "_stock_survives" in source
    assert "skip" not in source


def test_private_names_stand_in_one_file() -> None:
    """Nothing but replication/raft/pysyncobj_core.py touches the library's private names, and its check at the start
    covers every one it uses."""
    root = Path(inspect.getfile(replication)).parent.parent
    for folder in ("replication", "node", "storage", "api", "cli", "chaos"):
        for path in (root / folder).rglob("*.py"):
            if path.name != "pysyncobj_core.py":
                assert "_SyncObj__" not in path.read_text(encoding="utf-8"), path
    used = set(re.findall(r"_SyncObj__([a-zA-Z]{2,})", inspect.getsource(core)))
    assert used <= set(core._PRIVATE), used - set(core._PRIVATE)


def test_a_name_that_moved_is_refused_at_the_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A library without one of them does not start: it would fail later, and elsewhere."""
    monkeypatch.setattr(core, "_PRIVATE", (*core._PRIVATE, "raftNovelty"))
    with pytest.raises(core.LibraryRefused, match=r"0\.3\.17 without raftNovelty"):
        SimNetwork(tmp_path)


def _find(name: str) -> Callable[..., None]:
    module, _, function = name.rpartition(".")
    found: Callable[..., None] = getattr(importlib.import_module(f"tests.replication.{module}"), function)
    return found
