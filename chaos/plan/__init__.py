"""Plans, drawn by seed: the faults of a run, the load of its clients, the frames of an attacker.

In: a seed, or a text that people wrote. Out: a list of faults, each with its target, moment and length.
fault_plan.py is the language. The simulator and real processes carry out the same plans.
"""
