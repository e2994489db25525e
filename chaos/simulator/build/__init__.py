"""Changes the code of simulated nodes: they run as the build before, or with a planted mistake.

In: the name of a mistake. Out: the node's code, changed during the run.
mutant.py has the mistakes, older_build.py the build before.
"""
