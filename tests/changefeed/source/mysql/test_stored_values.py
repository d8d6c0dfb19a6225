"""The small pieces: transaction ids, charsets, decimals, dates, retries, and old formats of the log."""

from __future__ import annotations

import threading
from datetime import timezone
from decimal import Decimal

import pytest

from tidewire.changefeed.source.mysql.binlog import Rows, WireColumn
from tidewire.changefeed.source.mysql.connection import Retries
from tidewire.changefeed.source.mysql.position import with_gtid
from tidewire.changefeed.source.mysql.row_values import field_of, rows_of
from tidewire.changefeed.source.mysql.stored_values import decimal_of, decimal_size, decoder
from tidewire.errors import ChangefeedError
from tidewire.model import Column, DateTime, Time, Timestamp, Value


@pytest.mark.parametrize(
    ("known", "gtid", "expected"),
    [
        ("", "0-1-1", "0-1-1"),
        ("0-1-1", "0-2-2", "0-2-2"),
        ("1-1-5,0-1-1", "2-1-1", "0-1-1,1-1-5,2-1-1"),
        ("", "aa:1", "aa:1"),
        ("aa:1-4", "aa:6", "aa:1-4:6"),
        ("aa:1-4:6", "aa:5", "aa:1-6"),
        ("BB:7,\naa:1", "bb:8", "aa:1,bb:7-8"),
        ("aa:1", None, "aa:1"),
    ],
)
def test_a_set_of_transactions_grows(known: str, gtid: str | None, expected: str) -> None:
    assert with_gtid(known, gtid) == expected


def test_latin1_is_what_mysql_makes_of_it() -> None:
    assert decoder("latin1")(b"\x80\x81\xe9") == "€\x81é"


def test_bytes_that_are_no_text_stay_bytes() -> None:
    assert decoder("utf8mb4")(b"\xff") == b"\xff"


def test_a_charset_without_a_decoder_is_named() -> None:
    with pytest.raises(ChangefeedError, match="'swe7'"):
        decoder("swe7")


@pytest.mark.parametrize(
    ("raw", "precision", "scale", "expected"),
    [
        ("810dfb38d204d2", 14, 4, "1234567890.1234"),
        ("7ef204c72dfb2d", 14, 4, "-1234567890.1234"),
        ("80", 1, 0, "0"),
        ("7f80", 3, 3, "-0.127"),
    ],
)
def test_a_decimal_is_exact(raw: str, precision: int, scale: int, expected: str) -> None:
    packed = bytes.fromhex(raw)

    assert decimal_size(precision, scale) == len(packed)
    assert str(decimal_of(packed, precision, scale)) == str(Decimal(expected))


@pytest.mark.parametrize(
    ("wire", "column", "raw", "expected"),
    [
        (7, "timestamp", (86400).to_bytes(4, "little"), Timestamp("1970-01-02 00:00:00")),
        (11, "time", (-123456).to_bytes(3, "little", signed=True), Time("-12:34:56")),
        (11, "time", (8385959).to_bytes(3, "little"), Time("838:59:59")),
        (12, "datetime", (20240229123456).to_bytes(8, "little"), DateTime("2024-02-29 12:34:56")),
    ],
)
def test_times_in_the_format_of_old_servers_are_read(wire: int, column: str, raw: bytes, expected: Value) -> None:
    field = field_of(WireColumn(wire), Column.of("v", column), timezone.utc)

    assert list(rows_of(Rows(1, None, b"\x01", b"\x00" + raw), [field])) == [(None, {"v": expected})]


def test_retries_end_and_a_success_restores_them() -> None:
    closing = threading.Event()
    closing.set()
    retries = Retries(closing)

    for _ in range(10):
        retries.wait(OSError("gone"))
    retries.restore()
    for _ in range(16):
        retries.wait(OSError("gone"))

    with pytest.raises(ChangefeedError, match="gone; tried 16 times") as caught:
        retries.wait(OSError("gone"))
    assert caught.value.code == "CDC:ErrMySQLConnectionError"
