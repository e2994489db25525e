"""Clients of a real cluster: they schedule, pull, change, receive webhooks, and ask what became of the messages.

In: a load plan and the nodes' addresses. Out: events of a history.
What a client cannot know, such as a lost answer, stays open in them.
"""
