"""The kinds of parts that an experiment may have, a file each."""
