"""Where docs/spark.md had this module before the rooms; whoever imports it is told where it is now."""

raise ImportError("reconcile.standalone is reconcile.spark.standalone now: import that")
