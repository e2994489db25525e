"""The semantics page's cells: kind by event and kind by kind, each shown on three real nodes by what a client got."""
