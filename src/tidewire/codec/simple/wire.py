"""What Simple's two encodings share: the words, and the one shape of a message between them and the model.

That shape, a *wire message*, is the JSON form as a dict: ``version``, ``database``, ``table``, ``tableID``, ``type``,
``sql``, ``commitTs``, ``buildTs``, ``schemaVersion``, ``claimCheckLocation``, ``handleKeyOnly``, ``checksum``,
``data``, ``old``, ``tableSchema`` and ``preTableSchema``, each only where it says something. A :class:`Format` turns
it into bytes and back, and knows how a column's value looks in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol, TypeAlias

from tidewire.model import Column, DdlKind, DdlType, Op, Value
from tidewire.model.ddl import KIND_OF_TYPE

PROTOCOL: Final = "simple"
VERSION: Final = 1
WATERMARK: Final = "WATERMARK"
BOOTSTRAP: Final = "BOOTSTRAP"

Wire: TypeAlias = dict[str, Any]

OP_WORDS: Mapping[Op, str] = {op: op.name for op in Op}
"""The ``type`` of a row's message."""

_KINDS: Mapping[int, DdlKind] = {
    **KIND_OF_TYPE,
    DdlType.EXCHANGE_TABLE_PARTITION: DdlKind.ALTER,
    DdlType.CREATE_TABLES: DdlKind.CREATE,
    DdlType.ADD_COLUMNS: DdlKind.QUERY,
    DdlType.DROP_COLUMNS: DdlKind.QUERY,
}
"""The new server's words, which for these few actions are not Canal-JSON's."""


def kind_of_type(type_: int) -> DdlKind:
    """The word for TiDB's action number."""
    return _KINDS.get(type_, DdlKind.QUERY)


class Format(Protocol):
    """One of the two encodings; a module can satisfy it."""

    def dump(self, message: Wire) -> bytes:
        """A wire message as bytes; raises ``ValueError`` or a similar error if something does not fit."""
        ...

    def load(self, data: bytes, part: str) -> Wire:
        """Parse a wire message; raises ``DecodeError`` if the bytes are not valid."""
        ...

    def write_value(self, column: Column, value: Any, zone: str) -> Any:
        """A value that is not NULL as it stands in ``data`` and ``old``; ``zone`` is the server's."""
        ...

    def read_value(self, column: Column, raw: Any) -> Value:
        """The value of a member of ``data`` or ``old``; raises ``ValueError`` if it is not a valid one."""
        ...
