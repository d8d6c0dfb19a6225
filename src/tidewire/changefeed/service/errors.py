"""Errors of running changefeeds: what they are called, and which of them are final."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidewire.errors import ChangefeedError, MissingExtra, OptionError, TidewireError

UNRETRYABLE = frozenset(
    f"CDC:{name}"
    for name in (
        "ErrExpressionColumnNotFound",
        "ErrInvalidFilterExpression",
        "ErrSchemaSnapshotNotFound",
        "ErrSyncRenameTableFailed",
        "ErrChangefeedUnretryable",
        "ErrCorruptedDataMutation",
        "ErrDispatcherFailed",
        "ErrColumnSelectorFailed",
        "ErrSinkURIInvalid",
        "ErrKafkaInvalidConfig",
        "ErrMySQLInvalidConfig",
        "ErrStorageSinkInvalidConfig",
        "ErrGCTTLExceeded",
        "ErrSnapshotLostByGC",
        "ErrStartTsBeforeGC",
        "ErrInvalidTableRoutingRule",
        "ErrTableRouteConflict",
    )
)
"""Errors that a retry cannot fix."""

UNKNOWN = "CDC:ErrUnknown"
_UNRETRYABLE = "CDC:ErrChangefeedUnretryable"
_CODES = re.compile(r"CDC:Err[A-Za-z0-9]+")


@dataclass(frozen=True, slots=True)
class Failure:
    """An error, as it is stored and shown. ``at`` is seconds since the epoch, ``addr`` the server where it occurred."""

    at: float
    addr: str
    code: str
    message: str


def codes_in(text: str) -> frozenset[str]:
    """All TiCDC codes in a text: an error may be wrapped in another.

    >>> sorted(codes_in("[CDC:ErrSinkURIInvalid][CDC:ErrKafkaInvalidConfig]no topic"))
    ['CDC:ErrKafkaInvalidConfig', 'CDC:ErrSinkURIInvalid']
    """
    return frozenset(_CODES.findall(text))


def code_of(error: Exception) -> str:
    """TiCDC's code for an error."""
    match error:
        case ChangefeedError(code=code):
            return code
        case MissingExtra() | OptionError():
            return _UNRETRYABLE
        case TidewireError():
            return getattr(error, "code", None) or UNKNOWN
        case _:
            return UNKNOWN


def error_text(error: Exception) -> str:
    """The text of an error; errors of other programs have their class name before it."""
    return str(error) if isinstance(error, TidewireError) else f"{type(error).__name__}: {error}"


def is_fatal(failure: Failure) -> bool:
    """Is a retry useless?"""
    return failure.code in UNRETRYABLE or not UNRETRYABLE.isdisjoint(codes_in(failure.message))
