"""Clients and receivers that cost next to nothing, or the benchmark would measure them.

In: requests rendered before the clock starts. Out: counts and times.
consumer.py pulls and acks, load.py has what all measurements put in, receivers.py are processes of their own.
"""
