"""Events to Canal-JSON messages, as the new-architecture server writes them.

The server prints ``mysqlType`` in random order; here it has the table's.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import assert_never

from tidewire.codec.base import Resources
from tidewire.codec.canal_json.types import PROTOCOL, WATERMARK_TYPE, full_type, java_type, value_text
from tidewire.codec.columns import emitted_columns, handle_key_columns
from tidewire.codec.gotext import EASYJSON
from tidewire.codec.options import LargeMessage, Options
from tidewire.codec.size_limits import RECORD_OVERHEAD, Packing
from tidewire.errors import EncodeError, MessageTooLarge, OptionError
from tidewire.model import Bootstrap, Column, Ddl, DdlKind, Event, Message, Op, Row, RowChange, Value, Watermark
from tidewire.model.ddl import KIND_OF_TYPE
from tidewire.model.tso import physical_ms

_quote = EASYJSON.quote


class Encoder:
    """Events to messages, one each."""

    def __init__(self, options: Options = Options(), resources: Resources = Resources()) -> None:
        if options.large_message_handle_option is not LargeMessage.NONE and not options.enable_tidb_extension:
            raise OptionError(
                "large-message-handle-option", "canal-json can mark large messages only with enable-tidb-extension"
            )
        self.options = options
        self.resources = resources
        self._packing = Packing(PROTOCOL, options, resources)

    def encode(self, events: Iterable[Event]) -> Iterator[Message]:
        """The messages these events make, in order; without the extension a watermark makes none."""
        for event in events:
            match event:
                case RowChange():
                    yield Message(None, self._row(event))
                case Ddl():
                    yield Message(None, self._packing.pack(self._ddl(event)))
                case Watermark(ts):
                    if self.options.enable_tidb_extension:
                        yield Message(None, self._packing.pack(self._watermark(ts)))
                case Bootstrap():
                    raise EncodeError(PROTOCOL, "cannot say BOOTSTRAP: types travel with every row")
                case _:
                    assert_never(event)

    def _row(self, event: RowChange) -> bytes:
        """A row within the size limit, by whatever means are allowed."""
        only_key = event.op is Op.DELETE and self.options.delete_only_output_handle_key_columns
        columns = handle_key_columns(event) if only_key else event.table.columns
        value = self._packed(event, columns, b"", may_be_empty=only_key)
        if _size(value) <= self.options.max_message_bytes:
            return value
        match self.options.large_message_handle_option:
            case LargeMessage.NONE:
                raise self._too_large(event, value)
            case LargeMessage.HANDLE_KEY_ONLY:
                mark = b',"onlyHandleKey":true'
            case LargeMessage.CLAIM_CHECK:
                mark = b',"claimCheckLocation":%s' % _quote(self._packing.check_in(Message(None, value)))
        small = self._packed(event, handle_key_columns(event), mark, may_be_empty=True)
        if _size(small) > self.options.max_message_bytes:
            raise self._too_large(event, small)
        return small

    def _too_large(self, event: RowChange, value: bytes) -> MessageTooLarge:
        return MessageTooLarge(PROTOCOL, str(event.table.name), _size(value), self.options.max_message_bytes)

    def _packed(self, event: RowChange, columns: Sequence[Column], mark: bytes, *, may_be_empty: bool) -> bytes:
        row = event.before if event.after is None else event.after
        if row is None:
            raise EncodeError(PROTOCOL, f"a change of {event.table.name} without a row")
        columns = list(emitted_columns(row, columns))
        if not columns and not may_be_empty:
            raise EncodeError(PROTOCOL, f"a change of {event.table.name} without columns", "CDC:ErrCanalEncodeFailed")
        ts = event.commit_ts or 0
        return self._packing.pack(
            self._head(*event.table.name, _names(event.table.primary_key), False, event.op.upper(), ts, "")
            + b'"sqlType":%s,"mysqlType":%s,"old":%s,"data":[%s]%s}'
            % (
                _members({column.name: b"%d" % java_type(column, row[column.name]) for column in columns}) or b"null",
                _members({column.name: _quote(self._type_text(column)) for column in columns}) or b"null",
                self._old(event, columns),
                _image(row, columns),
                self._extension(event, ts, mark),
            )
        )

    def _type_text(self, column: Column) -> str:
        return full_type(column) if self.options.content_compatible else column.short_type

    def _old(self, event: RowChange, columns: Sequence[Column]) -> bytes:
        before, after = event.before, event.after
        if before is None or after is None:
            return b"null"
        old = emitted_columns(before, columns)
        if self.options.only_updated:
            old = (column for column in old if _text(column, before[column.name]) != _text(column, after[column.name]))
        return b"[%s]" % _image(before, old)

    def _extension(self, event: RowChange, ts: int, mark: bytes) -> bytes:
        if not self.options.enable_tidb_extension:
            return b""
        row_key = b""
        if self.options.output_row_key:
            known = event.row_key
            row_key = b',"rowkey":%s' % (b"null" if known is None else _quote(base64.b64encode(known)))
        return b',"_tidb":{"commitTs":%d%s%s}' % (ts, mark, row_key)

    def _ddl(self, event: Ddl) -> bytes:
        kind = event.kind if event.type is None else KIND_OF_TYPE.get(event.type)
        ts = event.commit_ts or 0
        extension = _control("commitTs", ts) if self.options.enable_tidb_extension else b""
        head = self._head(*event.table, b"null", True, kind or DdlKind.QUERY, ts, event.query)
        return head + _NO_ROW + extension + b"}"

    def _watermark(self, ts: int) -> bytes:
        head = self._head("", "", b"null", False, WATERMARK_TYPE, ts, "")
        return head + _NO_ROW + _control("watermarkTs", ts) + b"}"

    def _head(self, schema: str, table: str, keys: bytes, is_ddl: bool, type_: str, ts: int, sql: str) -> bytes:
        return b'{"id":0,"database":%s,"table":%s,"pkNames":%s,"isDdl":%s,"type":%s,"es":%d,"ts":%d,"sql":%s,' % (
            _quote(schema),
            _quote(table),
            keys,
            b"true" if is_ddl else b"false",
            _quote(type_),
            physical_ms(ts),
            self.resources.clock(),
            _quote(sql),
        )


_NO_ROW = b'"sqlType":null,"mysqlType":null,"data":null,"old":null'


def _control(name: str, ts: int) -> bytes:
    """The extension of a DDL or watermark; a timestamp of 0 is left out."""
    return b',"_tidb":{"%s":%d}' % (name.encode(), ts) if ts else b',"_tidb":{}'


def _size(value: bytes) -> int:
    return len(value) + RECORD_OVERHEAD


def _names(names: Iterable[str]) -> bytes:
    return b"[%s]" % b",".join(map(_quote, names))


def _members(members: Mapping[str, bytes]) -> bytes:
    """A JSON object; nothing at all where it would be empty."""
    return b"{%s}" % b",".join(b"%s:%s" % (_quote(name), text) for name, text in members.items()) if members else b""


def _image(row: Row, columns: Iterable[Column]) -> bytes:
    texts = {column.name: _text(column, row[column.name]) for column in columns}
    return _members({name: b"null" if text is None else _quote(text) for name, text in texts.items()}) or b"{}"


def _text(column: Column, value: Value) -> str | bytes | None:
    if value is None:
        return None
    try:
        return value_text(column, value)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise EncodeError(
            PROTOCOL, f"column {column.name} ({column.mysql_type}) cannot hold {value!r}: {error}"
        ) from error
