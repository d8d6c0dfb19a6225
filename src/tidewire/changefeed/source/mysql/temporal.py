"""Dates and times as MySQL prints them, from the numbers a log keeps."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone, tzinfo

from tidewire.model import Date, DateTime, Time, Timestamp

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def fraction(micros: int, digits: int) -> str:
    """The part after the seconds, as many digits as the column has."""
    return f".{micros:06d}"[: digits + 1] if digits else ""


def date_of(packed: int) -> Date:
    """A DATE from 15 bits of year, 4 of month and 5 of day."""
    return Date(f"{packed >> 9:04d}-{packed >> 5 & 15:02d}-{packed & 31:02d}")


def datetime_of(packed: int, micros: int, digits: int) -> DateTime:
    """A DATETIME from 17 bits of year and month, then day, hour, minute and second."""
    year, month = divmod(packed >> 22, 13)
    day, hour, minute, second = packed >> 17 & 31, packed >> 12 & 31, packed >> 6 & 63, packed & 63
    text = f"{year:04d}-{month:02d}-{day:02d} {hour:02d}:{minute:02d}:{second:02d}"
    return DateTime(text + fraction(micros, digits))


def time_of(negative: bool, packed: int, micros: int, digits: int) -> Time:
    """A TIME from 10 bits of hours, then minutes and seconds."""
    hour, minute, second = packed >> 12 & 1023, packed >> 6 & 63, packed & 63
    return Time(f"{'-' * negative}{hour:02d}:{minute:02d}:{second:02d}{fraction(micros, digits)}")


def timestamp_of(seconds: int, micros: int, digits: int, zone: tzinfo) -> Timestamp:
    """A TIMESTAMP from seconds since the epoch, in a zone; the epoch itself stands for the zero value."""
    if not seconds and not micros:
        return Timestamp("0000-00-00 00:00:00" + fraction(0, digits), zone=str(zone))
    moment = (_EPOCH + timedelta(seconds=seconds)).astimezone(zone)
    return Timestamp(f"{moment:%Y-%m-%d %H:%M:%S}" + fraction(micros, digits), zone=str(zone))


def timestamp_in_zone(text: str, zone: tzinfo) -> Timestamp:
    """A TIMESTAMP from its text in UTC, in a zone."""
    whole, dot, rest = text.partition(".")
    if whole == "0000-00-00 00:00:00":
        return Timestamp(text, zone=str(zone))
    moment = datetime.fromisoformat(whole).replace(tzinfo=timezone.utc).astimezone(zone)
    return Timestamp(f"{moment:%Y-%m-%d %H:%M:%S}{dot}{rest}", zone=str(zone))
