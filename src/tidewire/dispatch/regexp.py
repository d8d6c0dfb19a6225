"""Regular expressions as Go reads them: RE2's syntax, in linear time, without look-around and back-references."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

from tidewire.errors import MissingExtra

Search: TypeAlias = Callable[[str], bool]
"""Is there a match anywhere in a text?"""


@lru_cache(maxsize=1024)
def searching(pattern: str, *, ignore_case: bool = False) -> Search:
    """A search for a pattern, not anchored; raises ``ValueError`` with RE2's reason if it is not valid."""
    try:
        import re2
    except ImportError:
        raise MissingExtra("google-re2", "changefeed") from None
    options = re2.Options()
    options.case_sensitive = not ignore_case
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options=options)
    except re2.error as error:
        raise ValueError(_reason(error)) from None
    return lambda text: compiled.search(text) is not None


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
