"""What Go prints as it is: letters, marks, numbers, punctuation, symbols and U+0020, as of Unicode 15.0.

Python has the same rule, but every version of it has another Unicode: 3.11 has 14.0, 3.12 has 15.0, 3.13 has 15.1.
The bytes of a message must not depend on that, so what was added in 15.0 and 15.1 stands here.
"""

from __future__ import annotations

import re


def _one_of(ranges: str) -> re.Pattern[str]:
    """Any of the characters in hexadecimal ranges."""
    ends = (ends.split("-") for ends in ranges.split())
    return re.compile("[" + "".join("-".join(chr(int(end, 16)) for end in pair) for pair in ends) + "]")


_ADDED_IN_15_0 = _one_of(
    "cf3 ece 10efd-10eff 1123f-11241 11b00-11b09 11f00-11f10 11f12-11f3a 11f3e-11f59 1342f 13440-13455 1b132 1b155 "
    "1d2c0-1d2d3 1df25-1df2a 1e030-1e06d 1e08f 1e4d0-1e4f9 1f6dc 1f774-1f776 1f77b-1f77f 1f7d9 1fa75-1fa77 "
    "1fa87-1fa88 1faad-1faaf 1fabb-1fabd 1fabf 1face-1facf 1fada-1fadb 1fae8 1faf7-1faf8 2b739 31350-323af"
)
_ADDED_IN_15_1 = _one_of("2ffc-2fff 31ef 2ebf0-2ee5d")


def is_printable(char: str) -> bool:
    """Does Go's ``strconv.Quote`` leave this character as it is?"""
    if char.isprintable():
        return _ADDED_IN_15_1.match(char) is None
    return _ADDED_IN_15_0.match(char) is not None
