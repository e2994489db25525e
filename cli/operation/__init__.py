"""Commands that change many messages at once, and the one that shows these operations.

In: a command's words. Out: a dry run, a question, and a request for an operation, which is followed to its end.
One file a command.
"""
