"""The verbs, and what they have in common: options, errors, exit codes."""

from __future__ import annotations

import click

from tidewire import __version__
from tidewire.cli.client import cli
from tidewire.cli.decode import decode
from tidewire.cli.demo import demo
from tidewire.cli.encode import encode
from tidewire.cli.generate import generate
from tidewire.cli.inspect import inspect
from tidewire.cli.jars import jars
from tidewire.cli.maintain import maintain
from tidewire.cli.server import server
from tidewire.cli.show import show
from tidewire.cli.sync import sync
from tidewire.cli.topic import topic
from tidewire.cli.transcode import transcode
from tidewire.errors import TidewireError


class Cli(click.Group):
    """Turns our errors into one line and an exit code, for every verb at once."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except TidewireError as error:
            raise click.UsageError(str(error)) from error


@click.group(cls=Cli, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tidewire")
def app() -> None:
    """TiDB change data out of message queues and into tables that are right.

    Exit codes: 0 all went well, 1 some lines were bad (each is named on stderr, the others were done),
    2 the command itself was wrong.
    """


for _verb in (decode, encode, inspect, transcode, topic, generate, sync, show, maintain, jars, demo, server, cli):
    app.add_command(_verb)
