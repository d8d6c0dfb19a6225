"""Names and texts as Spark SQL writes them."""

from __future__ import annotations


def quoted(*parts: str) -> str:
    """A name of one or more parts, whatever characters are in it.

    >>> quoted("shop", "odd`name")
    '`shop`.`odd``name`'
    """
    return ".".join(f"`{part.replace('`', '``')}`" for part in parts)


def text_literal(text: str) -> str:
    """A string in quotes.

    >>> print(text_literal("it's"))
    'it\\'s'
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
