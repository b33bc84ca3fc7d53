"""Private data as runs see it: rows, units, parts, held-out rows."""
