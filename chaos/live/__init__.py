"""Plans of faults carried out on real processes: what the simulator does to a model, done to a machine."""
