"""Clocks of simulated hosts: jumps move the wall clock alone, drift moves both, nothing moves monotonic time back."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.simulator.time.clock import SimClock


def test_a_jump_moves_the_wall_clock_only() -> None:
    """Skew is what was set; `true` takes it back."""
    now = [0.0]
    clock = SimClock(lambda: now[0], epoch_s=1e9, zero_s=7.0)
    now[0] = 10.0
    clock.jump(-3)
    assert clock.skew_s == pytest.approx(-3)
    assert clock.monotonic() == pytest.approx(17)
    clock.true()
    assert clock.skew_s == pytest.approx(0, abs=1e-6)


def test_steering_moves_the_wall_clock_against_the_crystal() -> None:
    """500 ppm for 1,000 s are half a second, on the wall clock alone."""
    now = [0.0]
    clock = SimClock(lambda: now[0], epoch_s=1e9, zero_s=0.0)
    clock.steer(500)
    now[0] = 1000.0
    assert clock.skew_s == pytest.approx(0.5)
    assert clock.monotonic() == pytest.approx(1000)


@given(st.integers(0, 2**32))
def test_monotonic_time_only_grows_and_can_be_computed_back(seed: int) -> None:
    """Whatever is done to the clocks, a reading is never below an earlier one, and `true_s` is its inverse."""
    drawn, now, last = random.Random(seed), [0.0], 0.0
    clock = SimClock(lambda: now[0], epoch_s=1e9, zero_s=drawn.uniform(0, 1e4))
    for _ in range(30):
        now[0] += drawn.uniform(0, 100)
        drawn.choice([clock.drift, clock.steer, clock.jump])(drawn.uniform(-300, 300))
        assert clock.monotonic() >= last
        last = clock.monotonic()
        assert clock.true_s(last) == pytest.approx(now[0], abs=1e-6)
