"""Patterns with runs of any characters, compiled so that a match takes one pass over the text."""

from __future__ import annotations

import re
from collections.abc import Sequence


def compiled(segments: Sequence[str], flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """The pattern of segments with any run of characters between each two; ``fullmatch`` is what it is for.

    A segment is a regular expression of fixed length. Each but the first and the last matches as early as it can and is
    not tried again: what fits later fits after that place, too.
    """
    first, *rest = segments
    middle, last = rest[:-1], rest[-1:]
    found = "".join(f"(?>.*?{segment})" for segment in middle)
    return re.compile(first + found + "".join(f".*{segment}" for segment in last), re.DOTALL | flags)
