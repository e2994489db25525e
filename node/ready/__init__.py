"""The units that may be handed over now, topic by topic. Pure, and given the time.

In: units whose time has come, and their states, which say if they still wait.
Out: the next units of a topic, in order, claimed until they are leased or given back.
"""
