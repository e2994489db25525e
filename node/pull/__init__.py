"""Consumers that pull, and what they report of the messages that they got.

In: pulls, which may wait, and acks, nacks and extends. Out: deliveries with receipts, and a result for each receipt. A
waiting pull with a tag filter is woken only for units that its filter has not looked at.
"""
