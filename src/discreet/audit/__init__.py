"""Audits: the privacy of a training as measured. Evidence beside a bound, never a guarantee."""
