"""One file for each figure that is measured on real nodes.

In: a cluster and a scale (bench/scale.py). Out: rows (bench/row.py).
run.py of the room above names them all.
"""
