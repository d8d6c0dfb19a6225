"""``tidewire cli``: what there is to ask a changefeed server."""

from __future__ import annotations

import click

from tidewire.changefeed.http.client import ApiClient
from tidewire.cli.changefeed import changefeed
from tidewire.cli.changefeed_prompts import now
from tidewire.cli.connection import ApiGroup, connected, print_json


@click.group(cls=ApiGroup, name="cli")
def cli() -> None:
    """Manage the changefeeds of a server that runs (tidewire server).

    Exit codes: 0 it was done; 1 the server refused or did not answer, or a question was answered with no; 2 the command
    was wrong.

    \b
    Example:
      tidewire cli changefeed list --server=http://127.0.0.1:8300
    """


cli.add_command(changefeed)


@cli.group()
def tso() -> None:
    """Print the upstream's clock.

    \b
    Example:
      tidewire cli tso query
    """


@tso.command("query")
@connected
def tso_query(client: ApiClient) -> None:
    """Print the newest timestamp upstream.

    \b
    Example:
      tidewire cli tso query --server=http://127.0.0.1:8300
    """
    click.echo(now(client))


@cli.group()
def capture() -> None:
    """List the servers.

    \b
    Example:
      tidewire cli capture list
    """


@capture.command("list")
@connected
def capture_list(client: ApiClient) -> None:
    """List the servers; there is always one.

    \b
    Example:
      tidewire cli capture list --server=http://127.0.0.1:8300
    """
    print_json(client.captures())


@cli.group()
def processor() -> None:
    """List the changefeeds that run.

    \b
    Example:
      tidewire cli processor list
    """


@processor.command("list")
@connected
def processor_list(client: ApiClient) -> None:
    """List the changefeeds that run, and on which server.

    \b
    Example:
      tidewire cli processor list --server=http://127.0.0.1:8300
    """
    print_json(client.processors())
