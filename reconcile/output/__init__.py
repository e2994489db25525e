"""What the job writes, and what is sent again of it.

In: judged columns, bucket by bucket. Out: Parquet tables in one directory, whole or not there.
repair.py sends lost messages again, each under its own key.
"""
