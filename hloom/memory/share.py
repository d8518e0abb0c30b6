"""When the result of an operation may overwrite an operand that dies: the rule lives with the other
alias rules, in `analysis/alias_share.py`."""

from hloom.analysis.alias_share import CanShare as CanShare
from hloom.analysis.alias_share import DefaultShare as DefaultShare
