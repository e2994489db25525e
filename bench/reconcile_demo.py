"""Where docs/reconcile.md had this module before the rooms; whoever runs or imports it is told where it is now."""

raise ImportError("bench.reconcile_demo is bench.demo.reconcile now: run or import that")
