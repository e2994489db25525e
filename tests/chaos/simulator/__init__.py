"""Tests of the simulator's kernel: the parts by themselves, and whole worlds."""
