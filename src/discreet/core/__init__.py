"""Facts that everything else is built from: errors, checks, events, adjacency, guarantees, releases."""
