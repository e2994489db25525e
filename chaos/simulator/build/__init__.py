"""The code that a simulated node runs: as of the build before, or with a mistake planted in it.

In: the name of a mistake. Out: the node's code, changed while the run lasts.
mutant.py has the mistakes, older_build.py the level of the build before.
"""
