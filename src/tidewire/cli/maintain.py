"""``tidewire maintain``: keep a target in order, by hand."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from tidewire.cli.config_file import catalog_option
from tidewire.cli.failures import missing
from tidewire.cli.lines import write_line
from tidewire.cli.spark_session import spark_session
from tidewire.cli.stopping import stopping
from tidewire.sync.config import SyncConfig

if TYPE_CHECKING:
    from tidewire.spark.maintain import Maintained, TableUpkeep


@click.command()
@click.argument("target")
@click.option(
    "--older-than", default="7d", show_default=True, metavar="AGE", help="Delete publications that are older."
)
@click.option(
    "--keep",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Always keep this many of the newest publications.",
)
@catalog_option
@click.option("--dry-run", is_flag=True, help="Change nothing; only print what would be done.")
@click.option("--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def maintain(target: str, older_than: str, keep: int, config: SyncConfig, dry_run: bool, output: str) -> None:
    """Compact the tables in TARGET and expire their old versions.

    Files that are no longer needed are deleted.

    If a sync runs, it does this between two passes and answers. If not, the command drives TARGET itself while it
    works. With --output json, one line per table and one for all. AGE is such as 7d, 12h or 1d12h.

    Exit codes: 0 all went well, 1 a table could not be maintained (it is named on stderr, the others were), 2 the
    command was wrong or could not go on, 3 a sync that just started drives TARGET.

    \b
    Example:
      tidewire maintain /data/lake --dry-run
      tidewire maintain /data/lake --older-than 30d
    """
    try:
        from tidewire.spark.catalogs import catalog_of, needed_jars
        from tidewire.spark.ledger import required_owner
        from tidewire.spark.maintain import MaintenanceSettings, asked, maintained, parse_age
        from tidewire.spark.services import check_catalog_answers
        from tidewire.spark.staging import storage_of
    except ModuleNotFoundError as error:
        raise missing(error, "sync") from error
    settings = MaintenanceSettings(parse_age(older_than), keep, dry_run)
    storage = storage_of(target)
    owner = required_owner(storage)
    catalog = catalog_of(storage, owner, config.catalogs)
    done = None if dry_run else asked(storage, older_than, keep, _tell)
    if done is None:
        check_catalog_answers(catalog)
        name, jars = "tidewire maintain", needed_jars(target, catalog)
        with stopping() as signals, spark_session(name, signals, conf=config.spark, jars=jars) as spark:
            done = maintained(spark, target, owner, settings, catalog, _tell)
    if output == "json":
        for line in (*map(_line, done.tables), _total(done, dry_run)):
            write_line(line)
    else:
        _print(done, dry_run)
    for problem in done.problems:
        click.echo(f"error: {problem}", err=True)
    if done.problems:
        sys.exit(1)


def _tell(line: str) -> None:
    click.echo(line, err=True)


_SIZES = ("files", "deletes", "bytes", "versions")


def _line(upkeep: TableUpkeep) -> dict[str, Any]:
    sizes = {name: {what: getattr(size, what) for what in _SIZES} for name, size in _sides(upkeep)}
    problem = {} if upkeep.problem is None else {"problem": upkeep.problem}
    return {"table": str(upkeep.table), **sizes, "swept": upkeep.swept, **problem}


def _sides(upkeep: TableUpkeep) -> Iterator[tuple[str, Any]]:
    yield "before", upkeep.before
    yield "after", upkeep.after


def _total(done: Maintained, dry_run: bool) -> dict[str, Any]:
    return {
        "tables": len(done.tables),
        "publications_gone": done.publications,
        "publications_kept": done.kept_publications,
        "leftovers": done.leftovers,
        "purged": done.purged,
        "seconds": round(done.seconds, 3),
        "dry_run": dry_run,
    }


def _print(done: Maintained, dry_run: bool) -> None:
    console = Console(width=None if sys.stdout.isatty() else 160)
    shown = Table(box=None, header_style="bold")
    shown.add_column("table", overflow="fold")
    for what in (*_SIZES, "swept"):
        shown.add_column(what, justify="right")
    for each in done.tables:
        changes = (_change(getattr(each.before, what), getattr(each.after, what)) for what in _SIZES)
        shown.add_row(str(each.table), *changes, str(each.swept))
    console.print(shown)
    gone = "would go" if dry_run else "gone"
    console.print(
        f"[dim]{done.purged} dropped tables purged · {done.publications} of "
        f"{done.publications + done.kept_publications} publications {gone} · {done.leftovers} leftover files {gone} · "
        f"{done.seconds:.1f} s[/dim]"
    )


def _change(before: int, after: int) -> str:
    return f"{before:,}" if before == after else f"{before:,} → {after:,}"
