"""Who may lead and for how long: small machines that are given the time.

In: heartbeats and echoes with their times. Out: whether a node may ask for votes or give one,
whether a leader may still act as one, and what the clocks of the others show.
Nothing here sends or writes.
"""
