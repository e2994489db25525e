"""Faults on real processes, and the checkers that judge what came out."""
