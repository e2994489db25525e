"""Where docs/spark.md had this module before the rooms; whoever imports it is told where it is now."""

raise ImportError("reconcile.session is reconcile.spark.session now: import that")
