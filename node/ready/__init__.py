"""The units that may be handed over now, topic by topic. Pure, and given the time.

In: units that became due, and the states of units, which say if they are still open. Out: the next units of a topic, in
order. They are claimed until their Lease is applied or they are put back.
"""
