"""Consumers that ask, and what they say of what they were handed.

In: pulls that wait, acks, nacks and extensions. Out: deliveries with receipts, a result for each receipt. A waiting
pull is woken only for units above its own mark.
"""
