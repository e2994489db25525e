"""The outcome of a hand-over: settled, tried again, or given up.

In: acks, nacks, answers of receivers, ends of leases. Out: commands of the log, and the meaning of their results.
retry.py says when a message comes again, attempt_policy.py when it may not.
"""
