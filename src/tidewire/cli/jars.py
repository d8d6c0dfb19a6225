"""``tidewire jars``: fetch and check the jars Spark needs."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tidewire.cli.lines import Line, write_line
from tidewire.errors import JarError
from tidewire.spark.jars import BASE, SETS, Found, JarState, check, fetch, home

_FOLDER = click.Path(file_okay=False, path_type=Path)
_STYLE = {JarState.READY: "green", JarState.MISSING: "yellow", JarState.WRONG: "bold red"}


@click.command()
@click.argument("sets", nargs=-1, type=click.Choice(SETS))
@click.option("--dir", "folder", type=_FOLDER, help="Where to keep the jars.  [default: the user's cache folder]")
@click.option("--from", "source", type=_FOLDER, help="Copy the jars from this folder instead of fetching them.")
@click.option(
    "--ivy-settings",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    help="Fetch with these Ivy settings, for a mirror or a proxy.",
)
@click.option(
    "--check", "only_check", is_flag=True, help="Fetch nothing; only print which jars are present and correct."
)
@click.option("--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def jars(
    sets: tuple[str, ...],
    folder: Path | None,
    source: Path | None,
    ivy_settings: Path | None,
    only_check: bool,
    output: str,
) -> None:
    """Fetch the jars that Spark needs, and check them.

    SETS are what a target needs beside the base set, which is always fetched: aws for S3 and Glue, postgresql for a
    catalog in PostgreSQL.

    Jars that are present with the right SHA-256 are kept; the others are fetched, by the Ivy inside PySpark.
    The folder is --dir, or jars below TIDEWIRE_HOME, or tidewire/jars in the user's cache folder.
    The exit code is 1 if a jar is missing or wrong afterwards.

    \b
    Example:
      tidewire jars
      tidewire jars aws
      tidewire jars --check --output json
    """
    if sum((source is not None, ivy_settings is not None, only_check)) > 1:
        raise click.UsageError("--from, --ivy-settings and --check exclude each other")
    folder, wanted = folder or home(), {*BASE, *sets}
    if not only_check:
        try:
            fetch(folder, sets=wanted, source=source, ivy_settings=ivy_settings)
        except JarError as error:
            raise click.ClickException(str(error)) from error
    found = check(folder, sets=wanted)
    if output == "json":
        for file in found:
            write_line(_plain(file))
    else:
        print_jars(Console(width=None if sys.stdout.isatty() else 140), found, str(folder))
    if any(file.state is not JarState.READY for file in found):
        sys.exit(1)


def _plain(file: Found) -> Line:
    jar = file.jar
    return {
        "group": jar.group,
        "artifact": jar.artifact,
        "version": jar.version,
        "sha256": jar.sha256,
        "why": jar.why,
        "set": jar.set,
        "path": str(file.path),
        "size": file.size,
        "state": str(file.state),
    }


def print_jars(console: Console, found: Iterable[Found], title: str) -> None:
    """Jars as a table for a person."""
    console.print(Text(title, "italic"), soft_wrap=True)  # a path must come out whole, to be copied
    table = Table(header_style="bold", box=None, pad_edge=False)
    table.add_column("artifact", style="cyan", overflow="fold")
    table.add_column("version", no_wrap=True)
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("state", no_wrap=True)
    for file in found:
        size = f"{file.size / 1e6:.1f} MB" if file.size else ""
        table.add_row(file.jar.artifact, file.jar.version, size, f"[{_STYLE[file.state]}]{file.state}")
    console.print(table)
