"""``tidewire requests``: what the driver of a target was asked for and has not done yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tidewire.cli.holds import asked, opened, output_option, print_answer, print_lines

if TYPE_CHECKING:
    from tidewire.spark.ledger import Request
    from tidewire.storage import Storage


@click.group()
def requests() -> None:
    """Show and cancel requests to a sync.

    A sync can be asked to replace tables, and to retry or release holds.

    \b
    Example:
      tidewire requests ls /data/lake
      tidewire requests cancel /data/lake 5b1f09c2d6aa
    """


@requests.command()
@click.argument("target")
@output_option
def ls(target: str, output: str) -> None:
    """List the requests that the sync of TARGET has not answered.

    Does not start Spark and changes nothing.

    \b
    Example:
      tidewire requests ls /data/lake --output json
    """
    from tidewire.spark.ledger import requests as found

    storage = opened(target)
    lines = [{"id": each.id, "request": each.verb, "what": _what(storage, each)} for each in found(storage)]
    print_lines(lines, output, "nothing is asked for")


@requests.command()
@click.argument("target")
@click.argument("id")
@output_option
def cancel(target: str, id: str, output: str) -> None:
    """Take back a request to TARGET that is not answered yet.

    If a sync or load runs, it does it and answers. If not, a request of which nothing is done yet is gone at once; of
    others the next tidewire sync removes what was made. Tables that a load was to replace stay as they are.

    Exit codes: 0 it was done or is left for the next sync, 1 the running sync refused, 2 the command was wrong.

    \b
    Example:
      tidewire requests cancel /data/lake 5b1f09c2d6aa
    """
    storage = opened(target)
    answer = asked(storage, "cancel", {"request": id})
    if answer is None:
        from tidewire.spark.load.replace import cancel_alone

        answer = cancel_alone(storage, id)
    print_answer(answer, output)


def _what(storage: Storage, request: Request) -> str:
    """What a request is about."""
    from tidewire.spark.load.replace import requested

    replacing = requested(storage, request)
    if replacing is not None:
        return f"{', '.join(map(str, replacing.names))} as of {replacing.ts}"
    return ", ".join(f"{name} {value}" for name, value in request.arguments.items()) or "all holds"
