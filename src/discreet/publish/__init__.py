"""Certificates and their independent verification."""
