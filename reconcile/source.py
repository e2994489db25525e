"""Where docs/spark.md had this module before the rooms; whoever imports it is told where it is now."""

raise ImportError("reconcile.source is reconcile.spark.source now: import that")
