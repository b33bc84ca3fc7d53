"""The kinds of parts of an experiment, one file each."""
