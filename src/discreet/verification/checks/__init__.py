"""The questions that a published folder must answer, a file each."""
