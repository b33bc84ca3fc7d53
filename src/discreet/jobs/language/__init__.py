"""Language models on a column of texts, and texts that a published one writes."""
