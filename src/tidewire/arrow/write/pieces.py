"""Messages out of pieces: what is the same in every row, and one text or byte string for each.

A column becomes pieces, and a message is all its pieces in order, which one call of Arrow joins for all rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidewire.errors import EncodeError

Piece: TypeAlias = "str | bytes | pa.Array"
"""A part of every message. Those of one message are all text or all bytes."""


class NotOnFastPath(ValueError):
    """These rows are for the codec."""


LEFT_TO_CODEC: Final = (EncodeError, ValueError, TypeError, LookupError, ArithmeticError, pa.ArrowException)
"""What a writer may stumble over: it leaves such rows to the codec, which has a proper error or a way."""


def joined(pieces: Iterable[Piece], rows: int) -> pa.Array:
    """The pieces of each row in one, NULL where one of them is."""
    merged: list[Any] = []
    for piece in pieces:
        if merged and not isinstance(piece, pa.Array) and not isinstance(merged[-1], pa.Array):
            merged[-1] += piece
        else:
            merged.append(piece)
    parts = [piece if isinstance(piece, pa.Array) else constant(piece) for piece in merged]
    if len(parts) == 1 and not isinstance(parts[0], pa.Array):
        return pa.repeat(parts[0], rows)
    return pc.binary_join_element_wise(*parts, _NOTHING[parts[0].type])


def constant(value: str | bytes | int) -> pa.Scalar:
    """A value that is the same in all rows. Told the type Arrow is quicker than when it must find out."""
    return pa.scalar(value, _TYPES[type(value)])


_TYPES: Final = {str: pa.string(), bytes: pa.binary(), int: pa.int64()}
_NOTHING: Final = {pa.string(): constant(""), pa.binary(): constant(b"")}
