"""What releases cost: theories of composition, one file each, and the dispatch from an event to a guarantee."""
