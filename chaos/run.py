"""Where docs/chaos.md had the scenarios before the rooms; whoever runs or imports it is told where they are now."""

raise ImportError("chaos.run is chaos.scenario now: python -m chaos.scenario, or import chaos.scenario.run")
