"""``tidewire inspect``: one message, byte by byte."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tidewire.cli.codecs import LineCodecs, origin_of
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
from tidewire.codec import Field, protocol
from tidewire.plain import message_from_plain

_UNREADABLE = "?"
_TEXT_SHOWN, _HEX_SHOWN = 28, 8


@click.command()
@protocol_options
@click.option("--message", "-n", "wanted", type=click.IntRange(min=0), help="Only the message on this line, from 0.")
@click.option("--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@source_argument
def inspect(protocol_name: str, settings: tuple[str, ...], wanted: int | None, output: str, source: str) -> None:
    """Show every byte of a message with its field and meaning.

    Reads message lines as tidewire decode does. A broken message is shown as far as it can be read.

    \b
    Example:
      tidewire inspect -p open-protocol --message 3 topic.jsonl
    """
    report = Report()
    console = Console(width=None if sys.stdout.isatty() else 140)
    codec, codecs = protocol(protocol_name), LineCodecs(protocol_name, parse_settings(settings))
    for number, line in read_lines(source, report):
        if wanted is not None and number != wanted:
            continue
        try:
            options, resources = codecs.received(line)
            fields = list(codec.inspect(message_from_plain(line), options, resources))
        except EXPECTED as error:
            report.refuse(number, line, error)
            continue
        origin = origin_of(number, line)
        if output == "json":
            for field in fields:
                write_line(origin | field_line(field))
        else:
            print_fields(console, fields, "  ".join(f"{name} {value}" for name, value in origin.items()))
        if number == wanted:
            break
    report.exit()


def field_line(field: Field) -> Line:
    """A field as a JSON object."""
    return {
        "part": field.part,
        "offset": field.offset,
        "bytes": field.data.hex(),
        "field": field.name,
        "meaning": field.meaning,
    }


def print_fields(console: Console, fields: Iterable[Field], title: str | None = None) -> None:
    """Fields as a table for a person."""
    table = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    table.add_column("part", style="magenta", no_wrap=True)
    table.add_column("offset", justify="right", style="cyan", no_wrap=True)
    table.add_column("bytes", style="green", no_wrap=True)
    table.add_column("field", style="yellow", overflow="fold")
    table.add_column("meaning", overflow="fold")
    for field in fields:
        cells = map(Text, (field.part, str(field.offset), _preview(field.data), field.name, field.meaning))
        table.add_row(*cells, style="bold red" if field.name == _UNREADABLE else None)
    console.print(table)
    console.print()


def _preview(data: bytes) -> str:
    """Printable text as it is, other bytes in hex, and how many more there are."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if not text.isprintable():
        return data[:_HEX_SHOWN].hex(" ") + _more(len(data) - _HEX_SHOWN)
    shown = text[:_TEXT_SHOWN]
    return shown + _more(len(data) - len(shown.encode()))


def _more(count: int) -> str:
    return f" +{count}" if count > 0 else ""
