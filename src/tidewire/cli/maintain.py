"""``tidewire maintain``: a target kept in order, by hand."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from tidewire.cli.config_file import catalog_option, hidden
from tidewire.cli.lines import write_line
from tidewire.errors import MissingExtra
from tidewire.sync.config import FORMATS, SyncConfig

if TYPE_CHECKING:
    from tidewire.spark.maintain import Maintained, TableUpkeep


@click.command()
@click.argument("target")
@click.option("--older-than", default="7d", show_default=True, metavar="AGE", help="How long published moments stay.")
@click.option("--keep", type=click.IntRange(1), default=10, show_default=True, help="The newest moments stay anyway.")
@click.option("--target-format", type=click.Choice(FORMATS), help="By default what the target's sync writes.")
@click.option("--parallel", type=click.IntRange(1), default=2, show_default=True, help="Tables at a time.")
@catalog_option
@click.option("--dry-run", is_flag=True, help="Only say what there is and what would go.")
@click.option("--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def maintain(
    target: str,
    older_than: str,
    keep: int,
    target_format: str | None,
    parallel: int,
    config: SyncConfig,
    dry_run: bool,
    output: str,
) -> None:
    """Compact the tables in TARGET, expire their old versions, and sweep what nobody needs.

    A sync may run meanwhile. With --output json, one line per table and one for all. AGE is such as 7d, 12h or 1d12h.

    Exit codes: 0 all went well, 1 a table could not be maintained (it is named on stderr, the others were), 2 the
    command was wrong.

    \b
    Example:
      tidewire maintain /data/lake --dry-run
      tidewire maintain /data/lake --older-than 30d
    """
    try:
        from tidewire.spark.maintain import Settings, parse_age
        from tidewire.spark.maintain import maintain as maintained
        from tidewire.spark.ownership import required_owner
        from tidewire.spark.session import borrowed
        from tidewire.spark.targets import open_target
        from tidewire.spark.work import Work
    except ImportError as error:
        raise MissingExtra(str(error.name or error), "sync") from error
    settings = Settings(parse_age(older_than), keep, parallel, dry_run=dry_run)
    work = Work.of(target)
    owner = required_owner(work, config.catalog)
    with hidden(config.secrets), borrowed("tidewire maintain", conf=config.spark) as spark:
        tables = open_target(spark, target, target_format or owner.format, config.catalog)
        done = maintained(tables, work, settings)
    if output == "json":
        for line in (*map(_line, done.tables), _total(done, dry_run)):
            write_line(line)
    else:
        _print(done, dry_run)
    for problem in done.problems:
        click.echo(f"error: {problem}", err=True)
    if done.problems:
        sys.exit(1)


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
        "resting": done.resting,
        "left": done.left,
        "moments_gone": done.moments,
        "moments_kept": done.kept_moments,
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
        f"[dim]{done.resting} tables unchanged, {done.purged} dropped tables purged · {done.moments} of "
        f"{done.moments + done.kept_moments} moments {gone} · {done.leftovers} leftover files {gone} · "
        f"{done.seconds:.1f} s[/dim]"
    )


def _change(before: int, after: int) -> str:
    return f"{before:,}" if before == after else f"{before:,} → {after:,}"
