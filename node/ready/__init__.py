"""What may be handed over now, topic by topic. Pure, and given the time.

In: units whose time has come, and the states that say which of them still wait.
Out: the next ones of a topic, in order, claimed until they are leased or given back.
"""
