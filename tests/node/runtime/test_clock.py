"""The node clock: it follows the wall clock slowly, and never jumps while leading."""

from node.runtime.clock import NodeClock


class Clocks:
    """A wall clock and a monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.wall_s = 1_700_000_000.0
        self.monotonic_s = 50.0

    def pass_s(self, seconds: float) -> None:
        """Time passes on both."""
        self.wall_s += seconds
        self.monotonic_s += seconds


def make() -> tuple[Clocks, NodeClock]:
    """Clocks in step and a node clock on them."""
    clocks = Clocks()
    return clocks, NodeClock(lambda: clocks.wall_s, lambda: clocks.monotonic_s)


def test_it_starts_at_the_wall_clock_and_rounds_down() -> None:
    """A millisecond that is not over has not come."""
    clocks, clock = make()
    clocks.pass_s(0.0019)
    assert clock.now_ms() == 1_700_000_000_001


def test_a_millisecond_has_come_when_the_wait_for_it_is_over() -> None:
    """At whatever moment of another millisecond the wait begins, the clock held back or not; and no 0.1 ms earlier."""
    for held_back_ms in (0.0, 137.25):
        clocks, clock = make()
        clock.bound(-500 - held_back_ms)
        for number in range(1_000):
            clocks.pass_s(0.000_7 + number * 1e-9)
            at_ms = clock.now_ms() + 1 + number % 40
            wait_s = clock.until_s(at_ms)
            clocks.pass_s(wait_s - 1e-4)
            assert clock.now_ms() == at_ms - 1
            clocks.pass_s(1e-4)
            assert clock.now_ms() == at_ms
            assert abs(clock.until_s(at_ms)) < 1e-4


def test_a_step_of_the_wall_clock_does_not_move_a_leader() -> None:
    """Either way: 500 ppm at most, and the step is reported."""
    for step_s in (3600.0, -3600.0):
        clocks, clock = make()
        clock.leading = True
        clocks.wall_s += step_s
        before = clock.now_ms()
        clocks.pass_s(10)
        assert clock.slew()
        assert abs(clock.now_ms() - before - 10_000) <= 5


def test_a_node_that_does_not_lead_takes_the_step_at_once() -> None:
    """Nothing was promised by its clock."""
    clocks, clock = make()
    clocks.wall_s += 3600
    assert clock.slew()
    assert abs(clock.error_ms()) < 1


def test_a_small_error_is_slewed_away() -> None:
    """100 ms are gone after 200 s, without ever running backwards."""
    clocks, clock = make()
    clock.leading = True
    clocks.wall_s -= 0.1
    last = clock.now_ms()
    for _ in range(220):
        clocks.pass_s(1)
        assert not clock.slew()
        assert clock.now_ms() >= last
        last = clock.now_ms()
    assert abs(clock.error_ms()) < 1


def test_a_clock_far_ahead_of_the_median_is_held_back_to_half_a_second() -> None:
    """The peers outvote one fast clock; one that is behind, or within the bound, is left alone."""
    clocks, clock = make()
    clocks.pass_s(1)
    own = clock.own_ms()
    for median_ms, held_back_ms in ((-10_000.0, 9_500), (-500.0, 0), (-400.0, 0), (10_000.0, 0), (0.0, 0)):
        clock.bound(median_ms)
        assert clock.own_ms() == own
        assert own - clock.now_ms() == held_back_ms
