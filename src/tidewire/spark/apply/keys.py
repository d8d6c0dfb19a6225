"""Which spellings of a key are one row: the collation of the source, in Spark's words.

A binary collation is exact but for blanks at the end, which count only where the collation's name has ``0900`` or is
``binary``. The others compare by Unicode's collation without accents and case. That is what ``unicode_ci`` and
``0900_ai_ci`` do; ``general_ci`` differs for letters that Unicode takes for two, such as the German sharp s.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidewire.model import Column
from tidewire.model.types import STRINGS

_EXACT: Final = "{}"
_PADDED: Final = "rtrim({})"

_BY_ENDING: Mapping[str, str] = {
    "_0900_bin": _EXACT,
    "_bin": _PADDED,
    "_0900_ai_ci": "{} COLLATE UNICODE_CI_AI",
    "_0900_as_ci": "{} COLLATE UNICODE_CI",
    "_chinese_ci": "{} COLLATE UNICODE_CI_RTRIM",
    "_ci": "{} COLLATE UNICODE_CI_AI_RTRIM",
}
"""The first ending that fits a collation's name decides. A collation that nobody told, or ``binary``, is exact."""


def fold_sql(expr: str, column: Column) -> str:
    """What two values of a key's column have in common if upstream takes them for one."""
    if column.type not in STRINGS or column.is_binary or column.collation is None:
        return expr
    for ending, form in _BY_ENDING.items():
        if column.collation.endswith(ending):
            return form.format(expr)
    return expr
