"""How long a request waits for a leader, and an answer for its time, wherever a request is on its way to one."""

from __future__ import annotations

from typing import Final

#: How long a request waits for a leader to appear.
LEADER_WAIT_S: Final = 2.0
#: What a former leader answered before another one was heard has so long to arrive. Less: unknown outcomes where a busy
#: one would have said that it did nothing; more: requests under way to a paused one wait longer for its successor.
FAREWELL_S: Final = 0.25
#: How soon a leader that refused is asked again while no other is known: it may not be established yet, or lead on.
AGAIN_S: Final = 0.02
