"""Operations on the leader: begins them, does their work chunk by chunk, and shows how far each has come.

In: a client's wish to change many messages. Out: the entry that fixes its set, and entries that change a few thousand
messages each. All that must outlast a leader stands in the log (storage/tables/operations.py).
"""
