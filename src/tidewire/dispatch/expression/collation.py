"""How strings compare: by their bytes, by their characters, or by their letters without case and marks."""

from __future__ import annotations

import unicodedata

BINARY = "binary"
DEFAULT = "utf8mb4_bin"
"""The collation of literals, and of columns that tell none: TiDB's default."""


def ignores_case(collation: str) -> bool:
    """Is ``a`` the same as ``A``?"""
    return collation.endswith("_ci")


def folded(text: str, collation: str) -> str:
    """A text without what its collation does not look at."""
    if not ignores_case(collation):
        return text
    return text.casefold() if collation.endswith("_as_ci") else _without_marks(text).casefold()


def sort_key(text: str, collation: str) -> str:
    """What is compared instead of a text: most collations do not count spaces at the end.

    >>> sort_key("Café ", "utf8mb4_general_ci") == sort_key("CAFE", "utf8mb4_general_ci")
    True
    """
    counts_spaces = collation == BINARY or "_0900_" in collation
    return folded(text if counts_spaces else text.rstrip(" "), collation)


def _without_marks(text: str) -> str:
    if text.isascii():
        return text
    return "".join(letter for letter in unicodedata.normalize("NFD", text) if not unicodedata.combining(letter))
