"""How numbers are shown: fractions as they are, floats short."""

from fractions import Fraction
from typing import Any


def short(value: Any, digits: int = 4) -> str:
    """Return a number for a table; a dash where there is none."""
    if value is None:
        return "-"
    if isinstance(value, Fraction):
        return str(value) if value.denominator < 10**6 else f"{float(value):.{digits}g}"
    return f"{float(value):.{digits}g}"


def plain(value: Any) -> Any:
    """Return a number for JSON: rationals as strings "a/b", floats as numbers, infinity as None."""
    if isinstance(value, Fraction):
        return str(value)
    if value is None:
        return None
    number = float(value)
    return number if number not in (float("inf"), float("-inf")) else None
