"""Faults on clusters, real and simulated, and the checkers that judge what came out.

In: a plan of faults, or a seed that draws one. Out: a history, a verdict for each promise, a timeline.
plan says what happens; live does it to real processes, simulator to whole nodes on virtual time; check judges both.
"""
