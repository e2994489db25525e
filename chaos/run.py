"""The former module of the scenarios, named in older docs. Running or importing it names the new one."""

raise ImportError("chaos.run is chaos.scenario now: python -m chaos.scenario, or import chaos.scenario.run")
