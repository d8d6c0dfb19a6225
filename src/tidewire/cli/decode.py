"""``tidewire decode``: messages to events."""

from __future__ import annotations

import click

from tidewire.cli.codecs import LineCodecs, origin_of
from tidewire.cli.lines import (
    EXPECTED,
    Report,
    parse_settings,
    protocol_options,
    read_lines,
    source_argument,
    write_line,
)
from tidewire.plain import event_to_plain, message_from_plain


@click.command()
@protocol_options
@source_argument
def decode(protocol_name: str, settings: tuple[str, ...], source: str) -> None:
    """Decode messages, one JSON object a line, into events.

    A message line is a JSON object with the Base64 members "key" and "value", and optionally "id", "topic",
    "partition", "offset", "options" and "claim_check_files". Every event line has the number of its message line,
    from 0. A message that cannot be read is reported on stderr, and the next one is read.

    \b
    Example:
      tidewire decode -p canal-json -o enable-tidb-extension=true topic.jsonl
    """
    report = Report()
    codecs = LineCodecs(protocol_name, parse_settings(settings))
    for number, line in read_lines(source, report):
        try:
            message, origin = message_from_plain(line), origin_of(number, line)
            # All or nothing: a message with one bad event gives none.
            events = list(codecs.decoder(line).decode(message, origin))
        except EXPECTED as error:
            report.refuse(number, line, error)
            continue
        for its_origin, event in events:
            write_line(its_origin | event_to_plain(event))
        if not codecs.parked():
            codecs.taken_claim_checks()
    for origin, missing in codecs.parked():
        report.refuse(origin["message"], origin, missing)
    report.exit()
