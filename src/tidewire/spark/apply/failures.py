"""Failures of a step that would come again however often it is tried: what they are called, and their plain reasons.

Only these make a step impossible, so that its table is held and others go on. Every other failure stops the sync.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tidewire.errors import ColumnError, KeyNeeded, StepImpossible

CONDITIONS: Final[Mapping[str, str]] = {
    "CAST_INVALID_INPUT": "a stored value cannot be converted to the new type",
    "CAST_OVERFLOW": "a stored value is too large for the new type",
    "CAST_OVERFLOW_IN_TABLE_INSERT": "a value is too large for its column",
    "ARITHMETIC_OVERFLOW": "a number is too large for its type",
    "NUMERIC_VALUE_OUT_OF_RANGE": "a number is too large for its type",
    "DATETIME_OVERFLOW": "a time is beyond what its type can hold",
    "DATETIME_FIELD_OUT_OF_BOUNDS": "a time does not exist in the calendar",
    "CANNOT_PARSE_TIMESTAMP": "a text is not a time",
    "INVALID_ARRAY_INDEX": "the number of an ENUM has no name",
    "INVALID_ARRAY_INDEX_IN_ELEMENT_AT": "the number of an ENUM has no name",
    "INVALID_UTF8_STRING": "bytes are not UTF-8 text",
    "MALFORMED_RECORD_IN_PARSING": "a text is not a vector",
    "UNRESOLVED_COLUMN": "a column is not in the table",
}
"""Spark's error conditions, without what follows a dot, and what they mean here."""

ERRORS: Final = (ColumnError, KeyNeeded)
"""Errors whose own text is the reason."""


def reason_of(error: BaseException) -> str | None:
    """Why a step that raised this can never be done; ``None`` if it may be possible another time."""
    if isinstance(error, StepImpossible):
        return error.reason
    if isinstance(error, ERRORS):
        return str(error)
    for condition, message in _conditions(error):
        meaning = CONDITIONS.get(condition.partition(".")[0])
        if meaning is not None:
            return f"{meaning}: {_sentence(message)}"
    return None


def _conditions(error: BaseException) -> Iterator[tuple[str, str]]:
    """Spark's error conditions in an exception and in the Java exceptions that caused it, with their messages."""
    java: Any = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    while java is not None:
        message = str(java.getMessage() or "")
        if message.startswith("["):
            yield message[1:].partition("]")[0], message
        java = java.getCause()


def _sentence(message: str) -> str:
    """The first sentence of what Spark says, without the condition."""
    return message.partition("] ")[2].partition("\n")[0].partition(". ")[0].strip()
