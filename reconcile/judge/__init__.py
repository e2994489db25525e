"""The job: what became of each message, by the rules of ledger/.

In: rows of all nodes, and what receivers and consumers kept. Out: a class and flags for each message, counted.
first_pass.py reads all once, shuffle.py brings what belongs together into one bucket.
"""
