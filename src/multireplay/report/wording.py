"""Numbers and counts in words that a person reads."""

from __future__ import annotations

import math


def short(value: float) -> str:
    """Four digits, and whole numbers as they are.

    Examples
    --------
    >>> short(0.123456), short(150000.0), short(-3.0), short(1.5e-7), short(float("nan"))
    ('0.1235', '150,000', '−3', '1.5e−7', '–')
    """
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    whole = value == int(value) and abs(value) < 1e15
    return _typeset(f"{int(value):,}" if whole else f"{value:,.4g}")


def rough(value: float) -> str:
    """Two digits, for sentences.

    Examples
    --------
    >>> rough(0.0123456), rough(3.14159), rough(1234.5), rough(2.5e-9)
    ('0.012', '3.1', '1,200', '2.5e−9')
    """
    if not math.isfinite(value) or value == 0:
        return short(value)
    digits = 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, digits)
    return _typeset(f"{rounded:,.0f}") if 100 <= abs(rounded) < 1e9 else _typeset(f"{rounded:.2g}")


def seconds(value: float) -> str:
    """A duration with its unit.

    Examples
    --------
    >>> seconds(0.000123), seconds(0.0456), seconds(12.34), seconds(754)
    ('0.12 ms', '46 ms', '12 s', '12.6 min')
    """
    if value < 1:
        return f"{rough(1000 * value)} ms"
    return f"{rough(value)} s" if value < 100 else f"{value / 60:.1f} min"


def plural(count: int, noun: str) -> str:
    """A count with its noun.

    Examples
    --------
    >>> plural(1, "row"), plural(150000, "row")
    ('1 row', '150,000 rows')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _typeset(text: str) -> str:
    """A real minus, and exponents without leading zeros."""
    mantissa, _, power = text.partition("e")
    return (f"{mantissa}e{int(power)}" if power else mantissa).replace("-", "−")
