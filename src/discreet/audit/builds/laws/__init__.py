"""What a run draws, adds as noise, charges and buys, each held against the law that its plan states."""
