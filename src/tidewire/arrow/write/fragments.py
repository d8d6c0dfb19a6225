"""Columns as members of JSON objects: names, quotes, escapes, and ``null`` for NULL."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow.texts import contents
from tidewire.arrow.types import arrow_type
from tidewire.arrow.write.pieces import NotOnFastPath, Piece, joined
from tidewire.arrow.write.texts import Text
from tidewire.codec import Options
from tidewire.codec.gotext import Quoting
from tidewire.model import Column


@dataclass(frozen=True, slots=True)
class Cell:
    """How a column stands in an image: always with a head; its text, if it is not NULL, between opening and closing."""

    column: Column
    text: Text
    head: str
    opening: str = '"'
    closing: str = '"'
    tail: str = ""

    def pieces(self, values: pa.Array) -> list[Piece]:
        """The values in their surroundings; ``null`` for NULL."""
        texts = self.text(values)
        if not texts.null_count:
            return [self.head, self.opening, texts, self.closing, self.tail]
        enclosed = joined([self.opening, texts, self.closing], len(texts))
        return [self.head, pc.fill_null(enclosed, "null"), self.tail]


def listed(parts: Iterable[Iterable[Piece]]) -> Iterator[Piece]:
    """Parts with commas between them."""
    for number, part in enumerate(parts):
        if number:
            yield ","
        yield from part


def values_of(cells: Iterable[Cell], images: pa.StructArray) -> list[pa.Array]:
    """The values of some columns of images, if all are there with the types that these columns have in Arrow."""
    arrays = dict(zip((field.name for field in images.type), images.flatten(), strict=True))
    found = []
    for cell in cells:
        values = arrays.get(cell.column.name)
        if values is None or values.type != arrow_type(cell.column):
            raise NotOnFastPath
        found.append(values)
    return found


def image(cells: Sequence[Cell], images: pa.StructArray) -> Iterator[Piece]:
    """The members of images with these columns."""
    return listed(map(Cell.pieces, cells, values_of(cells, images)))


def key_cells(cells: Sequence[Cell], options: Options) -> Sequence[Cell]:
    """The columns of a deleted row: all, or those of its key if the options say so."""
    if not options.delete_only_output_handle_key_columns:
        return cells
    found = [cell for cell in cells if cell.column.handle_key]
    if not found:
        raise NotOnFastPath
    return found


def escaped(quoting: Quoting) -> Text:
    """Text as it stands between the quotes of a JSON string."""
    # A backslash comes first: the other escapes have one.
    escapes = [
        (chr(code).encode(), chr(code), quoting.escapes[code]) for code in sorted(quoting.escapes, key=_backslash)
    ]
    single = b"".join(raw for raw, _, _ in escapes if len(raw) == 1)
    longer = [raw for raw, _, _ in escapes if len(raw) > 1]

    def text(values: pa.Array) -> pa.Array:
        data = contents(values)
        if len(data.translate(None, single)) == len(data) and not any(raw in data for raw in longer):
            return values
        for raw, char, escape in escapes:
            if raw in data:
                values = pc.replace_substring(values, char, escape)
        return values

    return text


def _backslash(code: int) -> bool:
    return code != ord("\\")


def each(write: Callable[[bytes], str]) -> Text:
    """Texts made value by value."""

    def text(values: pa.Array) -> pa.Array:
        return pa.array([None if value is None else write(value) for value in values.to_pylist()], pa.string())

    return text


base64_texts: Final = each(lambda data: base64.b64encode(data).decode())
"""Bytes in Base64, which needs no escapes."""
