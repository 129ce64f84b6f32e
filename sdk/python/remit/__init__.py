"""A client of a Remit API that pays once for an intent."""

from ._client import Answer, AsyncClient, Attempt, Client, IntentReused, OutcomeUnknown, Refused, key, verify_webhook
from ._units import amount_of, format_units, parse_units

__all__ = [
    "Answer", "AsyncClient", "Attempt", "Client", "IntentReused", "OutcomeUnknown", "Refused", "amount_of",
    "format_units", "key", "parse_units", "verify_webhook",
]
