"""Accountants, a file each."""
