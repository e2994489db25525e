"""The replicated commands, the machine that applies them, and the Raft group that orders them."""
