"""Audits of a build: a training made again on rows that are made up, and held against its plan."""
