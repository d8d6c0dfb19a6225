"""``tidewire transcode``: a topic in one protocol to another."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from tidewire.cli.codecs import LineCodecs, origin_of
from tidewire.cli.lines import EXPECTED, Line, Report, parse_settings, read_lines, source_argument, write_line
from tidewire.codec import PROTOCOLS, Options, protocol
from tidewire.codec.transcode import Adapter
from tidewire.model import Event, Message
from tidewire.plain import message_from_plain, message_to_plain

_PROTOCOL = click.Choice(list(PROTOCOLS))


@click.command()
@click.option("--from", "source_name", required=True, type=_PROTOCOL, help="The protocol of the messages.")
@click.option("--to", "target_name", required=True, type=_PROTOCOL, help="The protocol to write.")
@click.option(
    "--from-option",
    "source_settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="A codec option of the source protocol.",
)
@click.option(
    "--to-option", "target_settings", multiple=True, metavar="NAME=VALUE", help="A codec option of the target protocol."
)
@click.option("--report", "report_file", type=click.Path(dir_okay=False), help="Write the losses as JSON to this file.")
@source_argument
def transcode(
    source_name: str,
    target_name: str,
    source_settings: tuple[str, ...],
    target_settings: tuple[str, ...],
    report_file: str | None,
    source: str,
) -> None:
    """Convert messages of one protocol into those of another.

    What the target protocol cannot carry is left out, and counted on stderr at the end by kind of
    event and fact. Events of one message stay together; topic and partition stay, offsets are counted anew.

    \b
    Example:
      tidewire transcode --from craft --to canal-json --to-option enable-tidb-extension=true topic.jsonl
    """
    report = Report()
    settings = parse_settings(target_settings)
    adapter = Adapter(protocol(target_name).capabilities(Options.parse(settings)))
    reader = LineCodecs(source_name, parse_settings(source_settings))
    writer = _Writer(LineCodecs(target_name, settings), adapter)
    for number, line in read_lines(source, report):
        try:
            events = list(reader.decoder(line).decode(message_from_plain(line), origin_of(number, line)))
        except EXPECTED as error:
            report.refuse(number, line, error)
            continue
        for origin, together in _by_origin(events):
            for refusal in writer.write(origin, together):
                report.refuse(origin["message"], origin, refusal)
    for origin, missing in reader.parked():
        report.refuse(origin["message"], origin, missing)
    _tell(adapter.losses, report_file)
    report.exit()


def _by_origin(events: list[tuple[Line, Event]]) -> list[tuple[Line, list[Event]]]:
    """Events of one message together, in order: released ones come from other messages than the one at hand."""
    groups: dict[int, tuple[Line, list[Event]]] = {}
    for origin, event in events:
        groups.setdefault(origin["message"], (origin, []))[1].append(event)
    return list(groups.values())


class _Writer:
    """Writes events in the target protocol, each partition with offsets of its own."""

    def __init__(self, codecs: LineCodecs, adapter: Adapter) -> None:
        self._codecs = codecs
        self._adapter = adapter
        self._offsets: Counter[tuple[Any, Any]] = Counter()

    def write(self, origin: Line, events: list[Event]) -> Iterator[Exception]:
        """Write a message's events; what cannot be written costs only itself and is given back."""
        channel = (origin.get("topic"), origin.get("partition"))
        ready = iter(list(self._adapter.adapt(events, channel)))
        while True:
            try:
                for message in self._codecs.shared_encoder().encode(ready):
                    self._write(origin, channel, message)
            except EXPECTED as error:
                yield error
            else:
                return

    def _write(self, origin: Line, channel: tuple[Any, Any], message: Message) -> None:
        place: Line = {name: origin[name] for name in ("id", "topic", "partition") if name in origin}
        if "partition" in place:
            place["offset"] = self._offsets[channel]
            self._offsets[channel] += 1
        write_line(place | message_to_plain(message) | self._codecs.brought(message))


def _tell(losses: Counter[tuple[str, str]], report_file: str | None) -> None:
    if report_file is not None:
        kinds: dict[str, dict[str, int]] = {}
        for (kind, fact), count in sorted(losses.items()):
            kinds.setdefault(kind, {})[fact] = count
        Path(report_file).write_text(json.dumps(kinds, indent=2) + "\n")
    if not losses:
        return
    table = Table(title="not carried over", title_justify="left", box=None, header_style="bold")
    table.add_column("event")
    table.add_column("fact")
    table.add_column("times", justify="right")
    for (kind, fact), count in sorted(losses.items()):
        table.add_row(kind, fact, str(count))
    Console(stderr=True).print(table)
