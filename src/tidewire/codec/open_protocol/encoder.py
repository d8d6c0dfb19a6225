"""Events to Open Protocol messages, byte for byte as the new-architecture server writes them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple, assert_never

from tidewire.codec.base import Resources
from tidewire.codec.columns import changed_columns, emitted_columns, handle_key_columns
from tidewire.codec.gotext import JSONITER, json_number, plain_decimal, plain_integer
from tidewire.codec.open_protocol.wire import LENGTH, PROTOCOL, VERSION, MessageType, frame, go_quote
from tidewire.codec.options import LargeMessage, Options
from tidewire.codec.size_limits import RECORD_OVERHEAD, Packing
from tidewire.errors import EncodeError, MessageTooLarge, OptionError, TidewireError
from tidewire.model import Bootstrap, Column, Ddl, Event, Message, MySQLType, Row, RowChange, Value, Watermark
from tidewire.model.types import BLOBS, CHARS, ENUM_SET, FLOATS, INTEGERS, TEMPORAL, TEXTS

_PAIR_OVERHEAD = 2 * LENGTH.size
_MESSAGE_OVERHEAD = RECORD_OVERHEAD + len(VERSION)


def _quote(text: str | bytes) -> bytes:
    try:
        return JSONITER.quote(text)
    except UnicodeEncodeError as error:
        raise EncodeError(PROTOCOL, f"{text!r} is not text") from error


class _Pair(NamedTuple):
    """The key and the value of one event, not yet wrapped in a message."""

    key: bytes
    value: bytes

    @property
    def size(self) -> int:
        """What this pair adds to a message."""
        return len(self.key) + len(self.value) + _PAIR_OVERHEAD


class _Batch:
    """The rows that will share a message."""

    def __init__(self) -> None:
        self.pairs: list[_Pair] = []
        self.size = _MESSAGE_OVERHEAD

    def add(self, pair: _Pair) -> None:
        self.pairs.append(pair)
        self.size += pair.size

    def flush(self) -> Iterator[Message]:
        """The message, if there is anything in it; the batch is empty then."""
        if self.pairs:
            yield _message(self.pairs)
            self.pairs, self.size = [], _MESSAGE_OVERHEAD


class Encoder:
    """Events to messages: rows packed together, DDL and watermarks alone."""

    def __init__(self, options: Options = Options(), resources: Resources = Resources()) -> None:
        if options.large_message_handle_option is LargeMessage.CLAIM_CHECK and options.claim_check_raw_value:
            raise OptionError("claim-check-raw-value", "open-protocol needs the key of a large message too")
        self.options = options
        self.resources = resources
        self._packing = Packing(PROTOCOL, options, resources)

    def encode(self, events: Iterable[Event]) -> Iterator[Message]:
        """The messages these events make, in order. What came before a bad event is sent before it is refused."""
        batch = _Batch()
        try:
            for event in events:
                match event:
                    case RowChange():
                        pair = self._row(event)
                        if not self._joins(pair, batch):
                            yield from batch.flush()
                        batch.add(pair)
                    case Ddl():
                        alone = _Pair(_ddl_key(event), self._packing.pack(_ddl_value(event)))
                        yield from batch.flush()
                        yield _message([alone])
                    case Watermark(ts):
                        yield from batch.flush()
                        yield _message([_Pair(b'{"ts":%d,"t":%d}' % (ts, MessageType.RESOLVED), b"")])
                    case Bootstrap():
                        raise EncodeError(PROTOCOL, "cannot say BOOTSTRAP: types travel with every row")
                    case _:
                        assert_never(event)
        except TidewireError:
            yield from batch.flush()
            raise
        yield from batch.flush()

    def _joins(self, pair: _Pair, batch: _Batch) -> bool:
        return len(batch.pairs) < self.options.max_batch_size and batch.size + pair.size <= self.options.batch_limit

    def _row(self, event: RowChange) -> _Pair:
        """A row within the size limit, by whatever means are allowed."""
        pair = self._pair(event, event.table.columns, b"")
        if self._fits(pair):
            return pair
        match self.options.large_message_handle_option:
            case LargeMessage.NONE:
                raise self._too_large(event, pair)
            case LargeMessage.HANDLE_KEY_ONLY:
                small = self._pair(event, _handle_key(event), b',"ohk":true')
            case LargeMessage.CLAIM_CHECK:
                location = _quote(self._packing.check_in(_message([pair])))
                mark = b',"ohk":true,"ohk":false,"ccl":%s' % location
                small = self._pair(event, _handle_key(event), mark)
        if not self._fits(small):
            raise self._too_large(event, small)
        return small

    def _fits(self, pair: _Pair) -> bool:
        return _size_alone(pair) <= self.options.max_message_bytes

    def _too_large(self, event: RowChange, pair: _Pair) -> MessageTooLarge:
        return MessageTooLarge(PROTOCOL, str(event.table.name), _size_alone(pair), self.options.max_message_bytes)

    def _pair(self, event: RowChange, columns: Sequence[Column], mark: bytes) -> _Pair:
        if event.commit_ts is None:
            raise EncodeError(PROTOCOL, f"a change of {event.table.name} without a commit ts")
        schema, table = map(_quote, event.table.name)
        partition = b"" if event.partition_id is None else b',"ptn":%d' % event.partition_id
        key = b'{"ts":%d,"scm":%s,"tbl":%s,"t":%d%s%s}' % (
            event.commit_ts, schema, table, MessageType.ROW, mark, partition,
        )  # fmt: skip
        return _Pair(key, self._packing.pack(self._row_value(event, columns)))

    def _row_value(self, event: RowChange, columns: Sequence[Column]) -> bytes:
        before, after = event.before, event.after
        if after is None:
            if before is None:
                raise EncodeError(PROTOCOL, f"a change of {event.table.name} without a row")
            if self.options.delete_only_output_handle_key_columns:
                columns = _handle_key(event)
            return b'{"d":%s}' % _image(before, columns)
        if before is None or not self.options.output_old_value:
            return b'{"u":%s}' % _image(after, columns)
        old = changed_columns(event, columns) if self.options.only_output_updated_columns else columns
        return b'{"u":%s,"p":%s}' % (_image(after, columns), _image(before, old))


def _handle_key(event: RowChange) -> Sequence[Column]:
    columns = handle_key_columns(event)
    for row in (event.before, event.after):
        if row is not None and not any(emitted_columns(row, columns)):
            raise EncodeError(
                PROTOCOL,
                f"not found handle key columns for the {event.op} event of {event.table.name}",
                "CDC:ErrOpenProtocolCodecInvalidData",
            )
    return columns


def _size_alone(pair: _Pair) -> int:
    return _MESSAGE_OVERHEAD + pair.size


def _message(batch: Sequence[_Pair]) -> Message:
    return Message(
        key=VERSION + b"".join(frame(pair.key) for pair in batch),
        value=b"".join(frame(pair.value) for pair in batch),
    )


def _ddl_key(event: Ddl) -> bytes:
    if event.commit_ts is None:
        raise EncodeError(PROTOCOL, f"a DDL without a commit ts: {event.query}")
    schema, table = map(_quote, event.table)
    return b'{"ts":%d,"scm":%s,"tbl":%s,"t":%d}' % (event.commit_ts, schema, table, MessageType.DDL)


def _ddl_value(event: Ddl) -> bytes:
    return b'{"q":%s,"t":%d}' % (_quote(event.query), event.type or 0)


def _image(row: Row, columns: Sequence[Column]) -> bytes:
    members = (
        b"%s:%s" % (_quote(column.name), _column(column, row[column.name])) for column in emitted_columns(row, columns)
    )
    return b"{%s}" % b",".join(members)


def _column(column: Column, value: Value) -> bytes:
    handle = b',"h":true' if column.handle_key else b""
    text = b"null" if value is None else _value(column, value)
    return b'{"t":%d%s,"f":%d,"v":%s}' % (column.type, handle, column.effective_flags, text)


def _value(column: Column, value: Any) -> bytes:
    try:
        return _WRITERS[column.type](column, value)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise EncodeError(
            PROTOCOL, f"column {column.name} ({column.mysql_type}) cannot hold {value!r}: {error}"
        ) from error


def _integer(_: Column, value: int) -> bytes:
    return plain_integer(value).encode()


def _unsigned(_: Column, value: int) -> bytes:
    return plain_integer(value, signed=False).encode()


def _float(column: Column, value: float) -> bytes:
    return json_number(value, single=column.type is MySQLType.FLOAT).encode()


def _decimal(_: Column, value: Decimal) -> bytes:
    return _quote(plain_decimal(value))


def _string(column: Column, value: str | bytes) -> bytes:
    if column.is_binary:
        return _quote(go_quote(_bytes(value)))
    return _quote(value)


def _base64(_: Column, value: str | bytes) -> bytes:
    return _quote(base64.b64encode(_bytes(value)).decode())


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


_WRITERS: Mapping[MySQLType, Callable[[Column, Any], bytes]] = {
    **dict.fromkeys(INTEGERS | {MySQLType.YEAR}, _integer),
    **dict.fromkeys(FLOATS, _float),
    **dict.fromkeys(ENUM_SET, lambda column, value: _unsigned(column, value.index)),
    **dict.fromkeys(TEMPORAL, lambda _, value: _quote(value.text)),
    **dict.fromkeys(TEXTS, lambda _, value: _quote(value)),
    **dict.fromkeys(CHARS, _string),
    **dict.fromkeys(BLOBS, _base64),
    MySQLType.BIT: _unsigned,
    MySQLType.DECIMAL: _decimal,
}
