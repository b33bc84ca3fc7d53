"""Plans whose events are chosen on the way, within a filter."""
