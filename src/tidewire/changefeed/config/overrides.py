"""A value that was given, or its default."""

from __future__ import annotations

from typing import TypeVar

Given = TypeVar("Given")


def value_or(given: Given | None, default: Given) -> Given:
    """The value that was given, ``False`` and 0 among them, or the default."""
    return default if given is None else given
