"""The outcome of a hand-over: the message ends, is tried again, or is given up.

In: acks, nacks, answers of receivers, ends of leases. Out: commands to propose, and the meaning of their results. If
and when a failed message is tried again is decided in retry.py, and the end of repeats in attempt_policy.py.
"""
