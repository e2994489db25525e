"""Faults on clusters, real and simulated, and the checkers that judge the results.

In: a plan of faults, or a seed that draws one. Out: a history, a verdict for each promise, a timeline.

The rooms: plan lists the faults. live puts them on real processes, simulator on whole nodes on virtual time. check
judges both.
"""
