"""Clients and receivers that take very little processor time. Otherwise the benchmark would measure them.

In: requests rendered before the clock starts. Out: counts and times.
consumer.py pulls and acks. The input of all measurements is in load.py. Receivers have processes of their own
(receivers.py).
"""
