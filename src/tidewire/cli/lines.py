"""JSON lines in, JSON lines out, and bad lines set aside by number."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, TypeVar

import click

from tidewire.codec import PROTOCOLS, Options
from tidewire.errors import TidewireError

Line = dict[str, Any]
Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def protocol_options(command: Decorated) -> Decorated:
    """``--protocol`` and ``--option``, which all codec verbs take."""
    protocol = click.option(
        "--protocol",
        "-p",
        "protocol_name",
        required=True,
        type=click.Choice(list(PROTOCOLS)),
        help="The wire protocol.",
    )
    option = click.option(
        "--option",
        "-o",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        help="A codec option under TiCDC's name, such as enable-tidb-extension=true. May be repeated.",
    )
    return protocol(option(command))


def source_argument(command: Decorated) -> Decorated:
    """``[FILE]``: JSON lines, plain or gzipped, ``-`` for standard input."""
    return click.argument("source", type=click.Path(dir_okay=False, allow_dash=True), default="-")(command)


def parse_settings(settings: tuple[str, ...]) -> dict[str, str]:
    """Codec options as a mapping, checked at once so that a typing error stops the command."""
    pairs = parse_pairs(settings, "--option")
    Options.parse(pairs)
    return pairs


def parse_pairs(settings: tuple[str, ...], hint: str) -> dict[str, str]:
    """``name=value`` texts of an option as a mapping."""
    pairs = {}
    for setting in settings:
        name, separator, value = setting.partition("=")
        if not separator:
            raise click.BadParameter(f"{setting!r} is not of the form NAME=VALUE", param_hint=hint)
        pairs[name] = value
    return pairs


def open_lines(source: str) -> IO[str]:
    """The lines of a file; ``-`` is standard input, ``.gz`` is unpacked on the way."""
    if source == "-":
        return sys.stdin
    try:
        if source.endswith(".gz"):
            return gzip.open(source, "rt", encoding="utf-8")
        return Path(source).open(encoding="utf-8")
    except OSError as error:
        raise click.FileError(source, error.strerror) from error


class Report:
    """Names bad lines on stderr and remembers that there were some."""

    def __init__(self) -> None:
        self.bad = 0

    def refuse(self, number: int, line: Line | None, error: Exception | str) -> None:
        """Say what is wrong with a line; numbers count from 0."""
        self.bad += 1
        name = f" ({line['id']})" if line and "id" in line else ""
        click.echo(f"error: line {number}{name}: {error}", err=True)

    def exit(self) -> None:
        """End the command: 1 where a line was bad."""
        if self.bad:
            sys.exit(1)


def read_lines(source: str, report: Report) -> Iterator[tuple[int, Line]]:
    """Each line with its number, from 0; lines that are no JSON object are reported and left out."""
    with open_lines(source) as lines:
        for number, text in enumerate(lines):
            if not text.strip():
                continue
            try:
                line = json.loads(text)
            except (ValueError, RecursionError) as error:
                report.refuse(number, None, f"not JSON: {error}")
                continue
            if not isinstance(line, dict):
                report.refuse(number, None, "not a JSON object")
                continue
            yield number, line


_LINE_BREAKS = str.maketrans({char: f"\\u{ord(char):04x}" for char in "\x85\u2028\u2029"})


def write_line(line: Line) -> None:
    """One JSON object to standard output, without characters that some programs take for the end of a line."""
    click.echo(json.dumps(line, ensure_ascii=False, separators=(",", ":")).translate(_LINE_BREAKS))


EXPECTED = (TidewireError, ValueError, KeyError, TypeError)
"""What a bad line may raise; anything else is our own mistake and is shown as such."""
