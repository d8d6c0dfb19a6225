"""Names as MySQL writes them."""

from __future__ import annotations


def quoted(*names: str) -> str:
    """Names in backquotes, with dots between them.

    >>> quoted("shop", "odd`name")
    '`shop`.`odd``name`'
    """
    return ".".join(f"`{name.replace('`', '``')}`" for name in names)
