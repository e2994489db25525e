"""Plans: which faults come when, what clients offer, which frames an attacker sends; drawn by seed.

In: a seed, or a text that people wrote. Out: a list of faults, each with its target, moment and length.
fault_plan.py is the language; the simulator and real processes carry out the same.
"""
