"""Layer rules: they measure and add up the gradients of one module's parameters, mostly without forming them.

A rule for another module type is one small file: a class with `@rule(TheModule)`, see `rules.base`.
"""

from discreet.clipping.rules import attention, bilinear, conv, embedding, linear, norm, recurrent
from discreet.clipping.rules.base import RULES, Formed, Rule, rule
from discreet.clipping.rules.unit_rules import OfUnits
from discreet.clipping.rules.vectorised import HeldDirectly, Vectorised

__all__ = ["RULES", "Formed", "HeldDirectly", "OfUnits", "Rule", "Vectorised", "rule"]

FAMILIES = (attention, bilinear, conv, embedding, linear, norm, recurrent)
"""The modules that register the rules."""
