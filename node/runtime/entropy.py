"""The random numbers of a process. The leader draws them and puts them into commands. `apply` draws none.

The random bits of an id make it unguessable, so they come from the operating system's generator, not from a seeded one.
"""

from __future__ import annotations

import os
import random

import numpy as np
import numpy.typing as npt

RANDOM_BITS = 50


class Entropy:
    """Random bits from the operating system's generator."""

    def bytes(self, count: int) -> bytes:
        """`count` random bytes, for the cluster's id, its secret and the store's id."""
        return os.urandom(count)

    def id_bits(self, count: int) -> npt.NDArray[np.uint64]:
        """50 random bits for each of `count` ids, uint64[count]."""
        drawn = np.frombuffer(os.urandom(8 * count), np.uint64)
        return drawn >> np.uint64(64 - RANDOM_BITS)

    def random(self) -> random.Random:
        """A random generator for election timeouts. Its seed comes from the operating system."""
        return random.Random(int.from_bytes(os.urandom(8), "little"))
