"""Imports that wait: of names until they are used, of plug-ins until a table is read, of what may not be installed."""
