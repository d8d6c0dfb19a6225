"""The commands, and what they share: options, errors, exit codes."""

from __future__ import annotations

import errno

import click

from tidewire import __version__
from tidewire.cli.client import cli
from tidewire.cli.decode import decode
from tidewire.cli.demo import demo
from tidewire.cli.encode import encode
from tidewire.cli.failures import failure, print_trace
from tidewire.cli.generate import generate
from tidewire.cli.holds import holds
from tidewire.cli.inspect import inspect
from tidewire.cli.jars import jars
from tidewire.cli.load import load
from tidewire.cli.maintain import maintain
from tidewire.cli.rejects import rejects
from tidewire.cli.requests import requests
from tidewire.cli.server import server
from tidewire.cli.show import show
from tidewire.cli.sync import sync
from tidewire.cli.topic import topic
from tidewire.cli.transcode import transcode


class Cli(click.Group):
    """Turns every error into one line and an exit code, for all verbs."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:
            click.echo("stopped by Ctrl-C", err=True)
            ctx.exit(130)
        except Exception as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise  # the reader of the output is gone, which click knows how to end
            if ctx.params["debug"]:
                print_trace(error, ctx)
            raise failure(error, ctx) from error


def show_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Print the version, and which kernel reads batches where the extra for them is installed."""
    if not wanted or ctx.resilient_parsing:
        return
    try:
        from tidewire.arrow.kernel import description

        kernel = f", kernel: {description()}"
    except ImportError:
        kernel = ""
    click.echo(f"tidewire, version {__version__}{kernel}")
    ctx.exit()


@click.group(cls=Cli, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, envvar="TIDEWIRE_DEBUG", help="Print the stack trace of an error too.")
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=show_version,
    help="Print the version and the kernel that decodes, and exit.",
)
def app(debug: bool) -> None:
    """TiDB change data from message queues into Iceberg and Delta tables.

    Exit codes: 0 all went well; 1 not all was done (each command says what that means); 2 the command was wrong or
    could not go on; 3 and 4 another sync drives the target (see tidewire sync --help); 130 ended by Ctrl-C,
    143 by SIGTERM.
    """


_MESSAGES = (decode, encode, inspect, transcode, topic, generate)
_TABLES = (load, sync, show, holds, rejects, requests, maintain, jars)
for _verb in (*_MESSAGES, *_TABLES, demo, server, cli):
    app.add_command(_verb)
