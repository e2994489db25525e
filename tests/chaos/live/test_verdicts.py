"""What is filled in and left out before a history of real processes is judged."""

import asyncio
import shutil
from pathlib import Path

import msgspec
import pytest

from chaos.check.message.linear import check_linear
from chaos.check.message.window import check_window
from chaos.history.event import Event, Fault, HandedOver, Led, Rescheduled, Transferred
from chaos.history.history import History
from chaos.live.faults.loop_disk import LoopDisk
from chaos.live.node_disks import NodeDisks, copy_out
from chaos.live.verdicts import BOUNDS, KEPT_BY_KERNEL_MS, READ_LATE_MS, calm_transfers, judge, whole
from chaos.plan.load_plan import Plan

PLAN = Plan(push_timeout_ms=1_000)
NAME = ("m1", 3, 1)


def fault(kind: str, node: str, phase: str, ms: float) -> Fault:
    """A begin or an end, both clocks the same."""
    assert phase in ("begin", "end")
    return Fault(mono_ms=ms, wall_ms=int(ms), kind=kind, node=node, role="leader", phase=phase)  # type: ignore[arg-type]


def pushed(ms: int) -> HandedOver:
    """A webhook received then, of term 3."""
    return HandedOver(
        mono_ms=ms,
        wall_ms=ms,
        number=1,
        message_id="m1",
        term=3,
        attempt=1,
        due_ms=ms,
        asked_due_ms=ms,
        handed_over_ms=0,
        leased_until_ms=0,
        node="",
        connection="push",
        response=1,
        status=200,
    )


def led(ms: float) -> Led:
    """n1 leads term 3."""
    return Led(mono_ms=ms, wall_ms=int(ms), term=3, leader="n1")


def test_a_refusal_before_the_receipt_of_a_push_without_a_start_is_no_lie() -> None:
    """The push was on its way when a reschedule was refused as leased; the power cut that took its start from the log
    left only the receipt, a few milliseconds later. With a start on record the same refusal is a lie.
    """
    refused = Rescheduled(
        mono_ms=4_995, wall_ms=4_995, number=1, message_id="m1", outcome="refused", asked_wall_ms=4_990, detail="leased"
    )
    events: list[Event] = [led(1), refused, pushed(5_000), fault("power", "n1", "begin", 5_200)]
    history, _ = whole(History(events), {}, PLAN)
    assert check_linear(history, BOUNDS).holds
    history, _ = whole(History(events), {NAME: ("n1", 5_000)}, PLAN)
    assert not check_linear(history, BOUNDS).holds


@pytest.mark.parametrize(
    ("node", "after_ms", "excused"),
    [
        ("n1", 200, True),
        ("n1", KEPT_BY_KERNEL_MS, True),
        ("n1", KEPT_BY_KERNEL_MS + 1, False),
        ("n2", 200, False),
        ("n1", -3_200, True),
        ("n1", -READ_LATE_MS - 1, False),
    ],
)
def test_a_power_cut_takes_the_end_of_its_own_log_only(node: str, after_ms: int, excused: bool) -> None:
    """A push without a start is taken to have begun when it came, if the power of the node that led went soon after."""
    cut = fault("power", node, "begin", 5_000 + after_ms)
    history, count = whole(History([led(1), pushed(5_000), cut]), {}, PLAN)
    (found,) = history.of(HandedOver)
    assert count == excused
    assert found.handed_over_ms == (5_000 if excused else 0)
    assert (found.gives_up_ms == 6_000, found.node == "n1") == (excused, excused)


def test_who_leads_after_its_power_came_back_writes_its_starts() -> None:
    """A push of a term that began after the cut is not one that was sent before it and read late."""
    cut, back = fault("power", "n1", "begin", 1_000), fault("power", "n1", "end", 2_000)
    later = msgspec.structs.replace(led(1), wall_ms=3_000)
    assert whole(History([cut, back, later, pushed(4_500)]), {}, PLAN)[1] == 0
    assert whole(History([led(1), cut, back, pushed(4_500)]), {}, PLAN)[1] == 1


def test_a_leader_whose_clock_was_ahead_is_not_early_for_it() -> None:
    """A push that came 2 ms too soon by the receiver's clock, and lost its start: by its leader's it was due."""
    early = msgspec.structs.replace(pushed(5_000), due_ms=5_002)
    history, count = whole(History([led(1), early, fault("power", "n1", "begin", 5_100)]), {}, PLAN)
    (found,) = history.of(HandedOver)
    assert (count, found.handed_over_ms, found.began_ms) == (1, 5_002, 5_000)
    assert check_window(history, BOUNDS).holds
    far = msgspec.structs.replace(pushed(5_000), due_ms=5_001 + BOUNDS.skew_ms)
    history, _ = whole(History([led(1), far, fault("power", "n1", "begin", 5_100)]), {}, PLAN)
    assert not check_window(history, BOUNDS).holds


def test_what_the_node_wrote_comes_first() -> None:
    """A push whose start is on record has that moment; of a clock that is ahead it counts no later than its receipt."""
    cut = fault("power", "n1", "begin", 5_100)
    history, count = whole(History([led(1), pushed(5_000), cut]), {NAME: ("n1", 5_400)}, PLAN)
    (found,) = history.of(HandedOver)
    assert (count, found.handed_over_ms, found.began_ms) == (0, 5_400, 5_000)


def transferred(ms: float) -> Transferred:
    """A transfer whose answer came then."""
    return Transferred(
        mono_ms=ms, wall_ms=int(ms), source="n1", target="n2", asked="n2", term_before=3, term_after=4, took_ms=50
    )


@pytest.mark.parametrize(("other_ms", "left"), [(8_000, 1), (9_000, 0), (10_500, 0), (20_000, 1)])
def test_a_transfer_counts_that_nothing_else_comes_near(other_ms: float, left: int) -> None:
    """One that meets another fault promises nothing; the fault of the transfer itself is no other."""
    events: list[Event] = [
        fault("kill", "n3", "begin", other_ms),
        fault("transfer", "n2", "begin", 9_900),
        transferred(10_000),
        fault("transfer", "n2", "end", 10_000),
        fault("kill", "n3", "end", other_ms + 100),
    ]
    assert len(calm_transfers(History(events)).of(Transferred)) == left


def test_a_fault_that_never_ended_is_near_for_ever() -> None:
    """An open fault excuses what comes after it."""
    assert not calm_transfers(History([fault("cut", "n1>n2", "begin", 1), transferred(90_000)])).of(Transferred)


def test_every_fault_excuses_until_it_is_over() -> None:
    """Windows of live runs: from the begin to the end and as long again as the service may take to come back."""
    events = [fault("partition", "n1|n2", "begin", 1_000), fault("partition", "n1|n2", "end", 4_000)]
    windows = BOUNDS.fault_windows(History(events))
    assert windows.spans == [(1_000, 4_000 + BOUNDS.window_ms)]
    assert windows.touch(0, 1_000)
    assert not windows.touch(0, 999)
    assert windows.touch(9_000, 9_100)
    assert not windows.touch(9_001, 9_100)


def test_without_disks_of_their_own(tmp_path: Path) -> None:
    """Where there can be none nodes have plain directories, and why is told."""

    async def story() -> None:
        async with NodeDisks(tmp_path, ["n1", "n2"], "loop devices") as disks:
            assert (disks.loops, disks.lacking) == ({}, "loop devices")
            assert not list(tmp_path.iterdir())

    asyncio.run(story())


def test_what_a_failed_run_leaves_without_power_is_copied_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed 990109: the copying failed with EIO, which hid why the run had failed, and left the data behind."""
    data, target = tmp_path / "disk" / "data", tmp_path / "data.out"
    data.mkdir(parents=True)
    (data / "LOCK").write_text("n1")
    off, copytree = [True], shutil.copytree

    class Loop(LoopDisk):
        """Without power at first."""

        def power_on(self) -> None:
            """See LoopDisk."""
            off.clear()

    def copied(source: Path, to: Path) -> Path:
        if off:
            to.mkdir()
            raise shutil.Error([(source, to, "Input/output error")])
        return copytree(source, to)

    monkeypatch.setattr(shutil, "copytree", copied)
    copy_out(Loop(tmp_path / "image", tmp_path / "disk"), target)
    assert (target / "LOCK").read_text() == "n1"


def test_a_push_is_read_a_moment_after_its_nodes_power_went() -> None:
    """Seed 990115: the receiver came to run 0.4 s after the fault had been noted; its node was down until the end."""
    cut, back = fault("power", "n1", "begin", 4_600), fault("power", "n1", "end", 5_200)
    history, count = whole(History([led(1), cut, pushed(5_000), back]), {}, PLAN)
    assert count == 1
    (event,) = history.of(HandedOver)
    assert event.by_receipt


def test_answers_are_judged_too() -> None:
    """Those that clients got while real processes were broken."""
    assert "answers" in {verdict.promise for verdict in judge(History())}
