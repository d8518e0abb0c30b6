"""Rewriting: patterns written as the expression they match, rules with laws, a driver."""

from hloom.rewrite.driver import FuelError, Trace, apply_rules
from hloom.rewrite.pattern import Pattern, any_of, constant, m, var
from hloom.rewrite.rule import Declined, Rule, rule

__all__ = [
    "Declined",
    "FuelError",
    "Pattern",
    "Rule",
    "Trace",
    "any_of",
    "apply_rules",
    "constant",
    "m",
    "rule",
    "var",
]
