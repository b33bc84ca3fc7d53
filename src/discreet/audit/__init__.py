"""Audits: the privacy of a training as measured. Evidence beside a bound, never a guarantee."""

from discreet.audit.builds.subject import Subject
from discreet.audit.builds.whole import audit_build
from discreet.audit.outcomes import FALSE_ALARM, Audit, Outcome

__all__ = ["FALSE_ALARM", "Audit", "Outcome", "Subject", "audit_build"]
