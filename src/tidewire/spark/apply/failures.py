"""Failures of a step that would come again however often it is tried: what they are called, and their plain reasons.

Only these make a step impossible, so that its table is held and others go on. Every other failure stops the sync.
"""

from __future__ import annotations

from typing import Final

from tidewire.errors import ColumnError, ForeignTable, KeyNeeded, NameRefused, NoTable, StepImpossible

ERRORS: Final = (ColumnError, ForeignTable, KeyNeeded, NameRefused)
"""Errors whose own text is the reason."""

GONE: Final = "another program dropped or renamed it. Rename it back and retry the hold, or load the table again"
"""What to do about a table or a column that is not there any more."""


def reason_of(error: BaseException) -> str | None:
    """Why a step that raised this can never be done; ``None`` if it may be possible another time."""
    if isinstance(error, StepImpossible):
        return error.reason
    if isinstance(error, NoTable):
        return f"{error}: {GONE}"
    if isinstance(error, ERRORS):
        return str(error)
    return None
