"""``tidewire rejects``: messages that could not be read, with their bytes."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from tidewire.cli.codecs import LineCodecs
from tidewire.cli.holds import asked, opened, output_option, print_answer, print_lines, state_of
from tidewire.cli.inspect import field_line, print_fields
from tidewire.cli.lines import EXPECTED, parse_settings, write_line
from tidewire.codec import protocol
from tidewire.errors import OptionError, SyncError
from tidewire.model import Message, Position

if TYPE_CHECKING:
    from tidewire.spark.rejects import KeptReject
    from tidewire.storage import Storage

_POSITION = re.compile(r"(?P<topic>.+)\[(?P<partition>\d+)\]@(?P<offset>\d+)", re.ASCII)


@click.group()
def rejects() -> None:
    """Look at messages that could not be read, and read them again.

    A POSITION is written as in all messages: topic, partition and offset, such as orders[3]@1207.

    \b
    Example:
      tidewire rejects ls /data/lake
      tidewire rejects show /data/lake 'orders[3]@1207'
    """


@rejects.command()
@click.argument("target")
@output_option
def ls(target: str, output: str) -> None:
    """List the messages of TARGET that could not be read.

    Does not start Spark and changes nothing.

    \b
    Example:
      tidewire rejects ls /data/lake --output json
    """
    storage = opened(target)
    ids = {hold.at: hold.id for hold in state_of(storage).holds if hold.kind == "message"}
    print_lines(
        [_line(each) | {"hold": ids.get(each.at)} for each in _kept(storage)], output, "no message was rejected"
    )


@rejects.command()
@click.argument("target")
@click.argument("position")
@click.option("--option", "-o", "settings", multiple=True, metavar="NAME=VALUE", help="A codec option, TiCDC's name.")
@output_option
def show(target: str, position: str, settings: tuple[str, ...], output: str) -> None:
    """Show every byte of the message at POSITION.

    The protocol is that of the sync. Give the sync's codec options (--option), such as schema-registry, if the bytes
    cannot be understood without them.

    \b
    Example:
      tidewire rejects show /data/lake 'orders[3]@1207'
    """
    from tidewire.spark.ledger import required_owner

    storage = opened(target)
    reject = _found(storage, parsed_position(position))
    name, given = required_owner(storage).protocol, parse_settings(settings)
    if reject.message == Message(None, None):
        raise SyncError(
            f"the bytes of {reject.at} were not kept (keep-rejected-bytes = false); it says: {reject.reason}"
        )
    try:
        options, resources = LineCodecs(name, _completed(name, given, reject.message)).received({})
        fields = list(protocol(name).inspect(reject.message, options, resources))
    except EXPECTED as error:
        raise SyncError(f"{reject.at} cannot be shown as {name}: {error}") from error
    if output == "json":
        for field in fields:
            write_line({"at": str(reject.at)} | field_line(field))
        return
    click.echo(f"{reject.at}: {reject.reason}{_place(reject)}")
    print_fields(Console(width=None if sys.stdout.isatty() else 140), fields)


@rejects.command()
@click.argument("target")
@click.argument("position", required=False)
@output_option
def retry(target: str, position: str | None, output: str) -> None:
    """Read rejected messages that hold tables of TARGET again.

    With POSITION only this message is read.

    They are read with the options, registry and schemas of the sync. If a sync runs, it does it and answers. If not,
    the next tidewire sync does it first.

    Exit codes: 0 it was done or is left for the next sync, 1 the running sync refused, 2 the command was wrong.

    \b
    Example:
      tidewire rejects retry /data/lake 'orders[3]@1207'
    """
    from tidewire.spark.ledger import Answer, leave

    storage = opened(target)
    at = None if position is None else parsed_position(position)
    held = [hold for hold in state_of(storage).holds if hold.kind == "message" and at in (None, hold.at)]
    if at is not None and not held:
        _found(storage, at)
        raise SyncError(
            f"no table is held by {at}: its table has gone on without it, so reading it again would change nothing"
        )
    arguments = {"kind": "message"} if at is None else {"hold": held[0].id}
    answer = asked(storage, "retry", arguments)
    if answer is None and not held:
        answer = Answer(True, ("no table is held by a message",))
    if answer is None:
        leave(storage, "retry", arguments)
        answer = Answer(True, tuple(f"{hold.at}: the next tidewire sync reads it again first" for hold in held))
    print_answer(answer, output)


def parsed_position(text: str) -> Position:
    """The position in a text such as ``orders[3]@1207``."""
    found = _POSITION.fullmatch(text)
    if found is None:
        raise OptionError(
            "position", f"{text!r} is not a position; write topic[partition]@offset, such as orders[3]@1207"
        )
    return Position(found["topic"], int(found["partition"]), int(found["offset"]))


def _kept(storage: Storage) -> list[KeptReject]:
    from tidewire.spark.rejects import list_rejects

    return list_rejects(storage)


def _found(storage: Storage, at: Position) -> KeptReject:
    for each in _kept(storage):
        if each.at == at:
            return each
    raise SyncError(f"no message at {at} was rejected; tidewire rejects ls lists those that were")


def _line(reject: KeptReject) -> dict[str, Any]:
    message = reject.message
    size = len(message.key or b"") + len(message.value or b"")
    return {"at": str(reject.at), "reason": f"{reject.reason}{_place(reject)}", "bytes": size}


def _place(reject: KeptReject) -> str:
    """Where in the message the fault is, if that is known and the reason does not say it."""
    part = f" in {reject.part}" if reject.part else ""
    place = f" at {reject.place}" if reject.place else ""
    return "" if reject.reason.endswith(f"{part}{place}") else f"{part}{place}"


def _completed(name: str, given: dict[str, str], message: Message) -> dict[str, str]:
    """The options, with those that the bytes themselves tell."""
    from tidewire.spark.source.detect import completed

    return completed(name, given, [message])
