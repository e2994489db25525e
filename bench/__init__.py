"""Measurements, run by hand or by `make bench`; never timed tests.

In: a checkout and a machine. Out: a table and one line of JSON, each figure beside what it should reach.
`python -m bench.run` measures real nodes; the other files here measure parts of one in a process of their own.
"""
