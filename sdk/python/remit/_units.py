from __future__ import annotations

import re


def amount_of(value: int | str) -> int:
    """Returns a whole number of the token's smallest unit, from an int or its decimal digits; anything else raises."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise TypeError(f"{value!r:.100} is no amount: use an int or decimal digits, never a float")
    if isinstance(value, str) and not re.fullmatch("0|[1-9][0-9]{0,77}", value) or not 0 <= int(value) < 2**256:
        raise ValueError(f"{str(value)[:100]!r} is no amount: use a whole number from 0 to 2^256-1")
    return int(value)


def parse_units(tokens: str, decimals: int) -> int:
    """Returns whole tokens, such as "1.50", exactly in the smallest unit (decimals: 0 to 255), or raises ValueError."""
    if not isinstance(tokens, str):
        raise TypeError(f"{tokens!r:.100} is no text such as '1.50'")
    parts = re.fullmatch(r"([0-9]+)(?:\.([0-9]+))?", tokens)
    fraction = (parts and parts[2] or "").rstrip("0")
    if not parts or len(tokens) > 400 or not 0 <= decimals <= 255 or len(fraction) > decimals:
        raise ValueError(f"{tokens[:100]!r} is no amount of a token with {decimals} decimals")
    return amount_of(int(parts[1] + fraction.ljust(decimals, "0")))


def format_units(amount: int | str, decimals: int) -> str:
    """Returns an amount in whole tokens, as short as it is exact: "1.5"."""
    if not 0 <= decimals <= 255:
        raise ValueError(f"no token has {decimals} decimals")
    digits = str(amount_of(amount)).rjust(decimals + 1, "0")
    whole, fraction = digits[: len(digits) - decimals], digits[len(digits) - decimals :].rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole
