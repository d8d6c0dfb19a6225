"""``tidewire encode``: events to messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import click

from tidewire.cli.codecs import LineCodecs
from tidewire.cli.lines import (
    EXPECTED,
    Line,
    Report,
    parse_settings,
    protocol_options,
    read_lines,
    source_argument,
    write_line,
)
from tidewire.model import Event, Message
from tidewire.plain import event_from_plain, message_to_plain

Numbered = tuple[int, Line]


@click.command()
@protocol_options
@source_argument
def encode(protocol_name: str, settings: tuple[str, ...], source: str) -> None:
    """Encode events, one JSON object a line, into messages.

    A line is one event, or an object with a list of "events", and with "options" and "id" if needed. The events of one
    list share messages if the protocol puts several events into one. Event lines that follow each other with the same
    "id" and "message", as tidewire decode writes them, are such a list too, and so are lines that have neither.
    The external parts of large messages are in "claim_check_files".

    \b
    Example:
      tidewire decode -p open-protocol topic.jsonl | tidewire encode -p canal-json
    """
    report = Report()
    codecs = LineCodecs(protocol_name, parse_settings(settings))
    for _, group in groupby(read_lines(source, report), key=_together):
        feed = _Feed(group, report)
        if feed.is_list:
            _encode_list(codecs, report, *feed.last)
        else:
            _encode_stream(codecs, report, feed)
    report.exit()


def _together(numbered: Numbered) -> tuple[Any, ...]:
    """What event lines share whose events may share messages; a list of events stands alone."""
    number, line = numbered
    if "events" in line:
        return (number,)
    return (line.get("id"), line.get("message"), json.dumps(line.get("options"), sort_keys=True))


def _encode_list(codecs: LineCodecs, report: Report, number: int, line: Line) -> None:
    """All of a line's events or none."""
    try:
        events = [event_from_plain(plain) for plain in line["events"]]
        messages = list(codecs.encoder(line).encode(events))
    except EXPECTED as error:
        codecs.taken_claim_checks()
        report.refuse(number, line, error)
        return
    for message in messages:
        _write(codecs, line, message)


def _encode_stream(codecs: LineCodecs, report: Report, feed: _Feed) -> None:
    """Events as they come; a bad one is reported and the rest goes on."""
    _, first = feed.last
    while not feed.ended:
        try:
            for message in codecs.encoder(first).encode(feed):
                _write(codecs, first, message)
        except EXPECTED as error:
            report.refuse(*feed.last, error)


class _Feed:
    """Events out of a group of lines, remembering the line of the last one. Iterating again goes on after it."""

    def __init__(self, lines: Iterator[Numbered], report: Report) -> None:
        self._lines = lines
        self._report = report
        self.last = next(lines)
        self._fresh = True
        self.ended = False

    @property
    def is_list(self) -> bool:
        """Is this a single line with a list of events?"""
        return "events" in self.last[1]

    def __iter__(self) -> Iterator[Event]:
        while self._advance():
            try:
                event = event_from_plain(self.last[1])
            except EXPECTED as error:
                self._report.refuse(*self.last, error)
                continue
            yield event

    def _advance(self) -> bool:
        if self._fresh:
            self._fresh = False
            return True
        following = next(self._lines, None)
        self.ended = following is None
        self.last = following or self.last
        return not self.ended


def _write(codecs: LineCodecs, line: Line, message: Message) -> None:
    identity = {"id": line["id"]} if "id" in line else {}
    write_line(identity | message_to_plain(message) | codecs.brought(message))
