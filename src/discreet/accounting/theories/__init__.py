"""The theories of accounting, one file each."""
