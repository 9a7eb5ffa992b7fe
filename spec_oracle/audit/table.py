"""The suite on one screen: each check, its question, its share of the error rate, and who answers it.

A cell is the function that answers for a kind of subject, or the reason why there is nothing to ask. Checks
run from top to bottom, so that those whose results others read come first.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from spec_oracle.audit.context import Context
from spec_oracle.audit.results import CheckResult

Answer: TypeAlias = Callable[[Any, Context], CheckResult]
