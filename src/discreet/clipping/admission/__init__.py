"""Admission: models are refused if their examples would influence each other."""
