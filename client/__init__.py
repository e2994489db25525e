"""What a receiver of webhooks needs.

In: a request as it came. Out: whether its signature holds; an answer.
It imports nothing of ours, so that it can be shipped alone.
"""
