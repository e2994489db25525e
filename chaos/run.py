"""The scenarios' old address in docs/chaos.md. Running or importing it names the new one."""

raise ImportError("chaos.run is chaos.scenario now: python -m chaos.scenario, or import chaos.scenario.run")
