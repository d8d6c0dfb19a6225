"""``tidewire topic``: list topics, print their messages, copy messages from and to files."""

from __future__ import annotations

import gzip
import json
import lzma
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from tidewire.cli.lines import EXPECTED, Line, open_lines, write_line
from tidewire.model import Position
from tidewire.plain import message_from_plain, message_to_plain
from tidewire.topic import open_topics

if TYPE_CHECKING:
    from tidewire.topic.files import FileTopics

_TOPIC = click.option("--topic", "names", multiple=True, metavar="NAME", help="Only this topic. May be repeated.")
_FILE = click.Path(dir_okay=False, allow_dash=True)
_PACKED: Mapping[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}


@click.group()
def topic() -> None:
    """List topics, print messages, and copy them from and to files.

    URI is file:FOLDER or file:///WHOLE/PATH: a folder with a sub-folder for each topic.

    \b
    Example:
      tidewire topic import topic.jsonl file:topics --topic orders
    """


@topic.command()
@click.argument("uri")
@click.option("--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def ls(uri: str, output: str) -> None:
    """List topics and their partitions.

    The columns are the first offset, the offset after the last message, the files (segments) and their bytes.

    \b
    Example:
      tidewire topic ls file:topics
    """
    rows = [asdict(facts) for facts in _existing(uri).facts()]
    if output == "json":
        for row in rows:
            write_line(row)
        return
    table = Table(header_style="bold", box=None, pad_edge=False)
    for name in ("topic", "partition", "first", "end", "segments", "bytes"):
        table.add_column(name, justify="left" if name == "topic" else "right", overflow="fold")
    for row in rows:
        table.add_row(*map(str, row.values()))
    Console(width=None if sys.stdout.isatty() else 140).print(table)


@topic.command()
@click.argument("uri")
@_TOPIC
@click.option("--partition", type=click.IntRange(min=0), help="Only this partition.")
@click.option("--offset", type=click.IntRange(min=0), default=0, help="Start at this offset in every partition.")
@click.option("--limit", type=click.IntRange(min=0), help="Stop after this many messages.")
def cat(uri: str, names: tuple[str, ...], partition: int | None, offset: int, limit: int | None) -> None:
    """Print messages as JSON lines.

    Each has partition, offset, key and value (Base64 or null) and topic.

    Topics and partitions come one after the other, each in the order of its offsets.

    \b
    Example:
      tidewire topic cat file:topics --topic orders --limit 10 | tidewire decode -p open-protocol
    """
    for line in islice(_lines(_existing(uri), names, partition, offset), limit):
        write_line(line)


@topic.command(name="import")
@click.argument("source", metavar="FILE", type=_FILE)
@click.argument("uri")
@click.option("--topic", "name", metavar="NAME", help="The topic of lines that do not name their own.")
def import_(source: str, uri: str, name: str | None) -> None:
    """Append the messages of a file to topics, all or none.

    FILE has JSON lines with "partition", "offset", "key", "value" and optionally "topic", as cat and export write
    them; .gz and .xz are unpacked, - is standard input. The offsets of each partition must continue the topic. A file
    that was imported already, or that lacks a line, is refused with exit code 1.

    \b
    Example:
      tidewire topic import orders.jsonl.xz file:topics --topic orders
    """
    count, topics = 0, open_topics(uri)
    with _opened(source) as lines, topics.appending() as appending:
        for number, text in enumerate(_readable(lines)):
            if text.strip():
                try:
                    line = json.loads(text)
                    appending.add(_position(line, name), message_from_plain(line))
                except (*EXPECTED, RecursionError) as error:
                    raise click.ClickException(f"line {number}: {error}; nothing was imported") from error
                count += 1
    click.echo(f"{count} messages imported", err=True)


@topic.command()
@click.argument("uri")
@click.argument("target", metavar="FILE", type=_FILE)
@_TOPIC
def export(uri: str, target: str, names: tuple[str, ...]) -> None:
    """Write messages to a file as JSON lines.

    tidewire topic import reads them. .gz and .xz are packed, - is standard output.

    \b
    Example:
      tidewire topic export file:topics topics.jsonl.gz
    """
    lines = _lines(_existing(uri), names)
    if target == "-":
        for line in lines:
            write_line(line)
        return
    count = 0
    opener = _PACKED.get(Path(target).suffix, open)
    try:
        with opener(target, "wt", encoding="utf-8") as file:
            for line in lines:
                file.write(json.dumps(line, separators=(",", ":")) + "\n")
                count += 1
    except OSError as error:
        raise click.FileError(target, error.strerror) from error
    click.echo(f"{count} messages exported", err=True)


def _existing(uri: str) -> FileTopics:
    topics = open_topics(uri)
    if not topics.folder.is_dir():
        raise click.UsageError(f"there is no folder {topics.folder}")
    return topics


def _lines(topics: FileTopics, names: tuple[str, ...], partition: int | None = None, offset: int = 0) -> Iterator[Line]:
    from tidewire.topic.files import messages_of

    for name in names or topics.topics():
        for number in topics.partitions(name):
            if partition not in (None, number):
                continue
            for batch in topics.read(name, number, offset):
                for at, message in zip(batch.column("offset").to_pylist(), messages_of(batch), strict=True):
                    yield {"partition": number, "offset": at, **message_to_plain(message), "topic": name}


def _opened(source: str) -> IO[str]:
    if not source.endswith(".xz"):
        return open_lines(source)
    try:
        return lzma.open(source, "rt", encoding="utf-8")
    except OSError as error:
        raise click.FileError(source, error.strerror) from error


def _readable(lines: Iterable[str]) -> Iterator[str]:
    try:
        yield from lines
    except (OSError, EOFError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise click.ClickException(f"the file cannot be read: {error}; nothing was imported") from error


def _position(line: Line, topic: str | None) -> Position:
    if not isinstance(line, dict):
        raise ValueError("not a JSON object")
    name = line.get("topic", topic)
    if name is None:
        raise ValueError("it names no topic, and there is no --topic")
    for member in ("partition", "offset"):
        if not isinstance(line.get(member), int) or isinstance(line[member], bool):
            raise ValueError(f"{member} is not a whole number")
    return Position(name, line["partition"], line["offset"])
