"""A file for each figure that is measured on real nodes.

In: a cluster and a scale (bench/scale.py). Out: rows (bench/row.py).
The list of all measurements is in bench/run.py.
"""
