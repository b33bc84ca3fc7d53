"""The format of a published folder: its files, their digests, schema and signature."""
