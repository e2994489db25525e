"""The place of this module before the rooms, as docs/reconcile.md had it. An import names the new place."""

raise ImportError("bench.reconcile_demo is bench.demo.reconcile now: run or import that")
