"""Exact accounting by the privacy-loss distribution: discretise, compose, query, with directed bounds."""
