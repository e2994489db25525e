"""Measurements, run by hand or by `make bench`. No test depends on their times.

In: a checkout and a machine. Out: a table and one line of JSON, each figure beside its target.
`python -m bench.run` measures real nodes. The other files here measure parts of a node in a process of their own.
"""
