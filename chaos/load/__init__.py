"""Clients of a real cluster: they schedule, pull, change, receive webhooks, and ask what became of it all.

In: a load plan and the nodes' addresses. Out: events of a history.
What a client cannot know, such as an answer that was lost, stays open in them.
"""
