"""The plan: every public fact that privacy depends on, in one frozen value."""

from discreet.plan.plan import FlatClipping, NoisePhase, Plan, PoissonSampling

__all__ = ["FlatClipping", "NoisePhase", "Plan", "PoissonSampling"]
