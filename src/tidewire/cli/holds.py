"""``tidewire holds``: why tables are held, and the ways out."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tidewire.cli.failures import missing
from tidewire.cli.lines import write_line
from tidewire.cli.progress import as_argument, way_out, ways_out

if TYPE_CHECKING:
    from tidewire.spark.ledger import Answer
    from tidewire.storage import Storage
    from tidewire.sync.state import Hold, Loss, State

ANSWER_SECONDS: Final = 600.0
"""How long a running sync may take to answer: it finishes its pass first."""


output_option = click.option("--output", type=click.Choice(["table", "json"]), default="table", show_default=True)


@click.group()
def holds() -> None:
    """Show why tables are held, and resolve holds.

    \b
    Example:
      tidewire holds ls /data/lake
      tidewire holds retry /data/lake 3f9c21ab
    """


@holds.command()
@click.argument("target")
@click.option("--released", is_flag=True, help="List what was given up by tidewire holds release instead.")
@output_option
def ls(target: str, released: bool, output: str) -> None:
    """List the holds of TARGET and how to resolve each.

    Does not start Spark and changes nothing. The exit code is 0, also if there are holds.

    \b
    Example:
      tidewire holds ls /data/lake --output json
    """
    state = state_of(opened(target))
    if released:
        print_lines([_loss_line(loss) for loss in state.losses], output, "nothing was released")
        return
    lines = [_hold_line(hold, target) for hold in state.holds]
    if output == "json" or not lines:
        print_lines(lines, output, "no table is held")
        return
    columns = ("id", "table", "kind", "since", "at", "reason")
    print_lines([{name: line[name] for name in columns} for line in lines], output, "")
    for line in ways_out(state.holds, target):
        click.echo(line)


@holds.command()
@click.argument("target")
@click.argument("id")
@output_option
def show(target: str, id: str, output: str) -> None:
    """Show one hold of TARGET.

    \b
    Example:
      tidewire holds show /data/lake 3f9c21ab
    """
    storage = opened(target)
    from tidewire.sync.holds import find_hold

    hold = find_hold(state_of(storage), id)
    line = _hold_line(hold, target)
    if hold.kind == "message":
        line["bytes"] = f"tidewire rejects show {as_argument(target)} {shlex.quote(str(hold.at))}"
    print_one(line, output)


@holds.command()
@click.argument("target")
@click.argument("id", required=False)
@output_option
def retry(target: str, id: str | None, output: str) -> None:
    """Try held messages, statements and rows of TARGET again.

    With ID only this hold is tried.

    A message is read again with the options, registry and schemas of the sync; a statement and rows are tried again. If
    a sync runs, it does it and answers. If not, the next tidewire sync does.

    Exit codes: 0 it was done or is left for the next sync, 1 the running sync refused, 2 the command was wrong.

    \b
    Example:
      tidewire holds retry /data/lake 3f9c21ab
    """
    storage = opened(target)
    answer = asked(storage, "retry", {} if id is None else {"hold": id})
    if answer is None:
        answer = _retry_alone(storage, id)
    print_answer(answer, output)


@holds.command()
@click.argument("target")
@click.argument("id")
@output_option
def release(target: str, id: str, output: str) -> None:
    """Accept the loss of what is held in TARGET, and continue.

    That is a message, a statement or rows; tidewire holds show says which.

    What is given up is remembered: tidewire holds ls TARGET --released. If a sync runs, it does it and answers. If not,
    the next tidewire sync goes on from there.

    Exit codes: 0 it was done, 1 the running sync refused, 2 the command was wrong.

    \b
    Example:
      tidewire holds release /data/lake 3f9c21ab
    """
    storage = opened(target)
    answer = asked(storage, "release", {"hold": id})
    if answer is None:
        answer = _release_alone(storage, id)
    print_answer(answer, output)


# Without a driver


def _retry_alone(storage: Storage, id: str | None) -> Answer:
    """Let the next sync try holds again. Statements and rows need a changed state, messages a request."""
    from tidewire.spark.ledger import Answer, leave
    from tidewire.sync.holds import find_hold, retry

    state = state_of(storage)
    wanted = [find_hold(state, id)] if id is not None else [hold for hold in state.holds if hold.kind != "policy"]
    if not wanted:
        return Answer(True, ("there is nothing to try again",))
    others = [hold.id for hold in wanted if hold.kind != "message"]
    if len(others) < len(wanted) or not changed(storage, lambda found: reduce(retry, others, found)):
        leave(storage, "retry", {} if id is None else {"hold": id})
    return Answer(True, tuple(f"{hold.id} of {_table(hold)}: the next tidewire sync tries it again" for hold in wanted))


def _release_alone(storage: Storage, id: str) -> Answer:
    """Release a hold, as the driver of the sync would."""
    from tidewire.spark.ledger import Answer, leave, now
    from tidewire.sync.holds import find_hold, release

    hold = find_hold(state_of(storage), id)
    if changed(storage, lambda found: release(found, id, now())):
        return Answer(True, (f"released {id} of {_table(hold)}; the next tidewire sync goes on from there",))
    leave(storage, "release", {"hold": id})
    return Answer(True, (f"{id} of {_table(hold)}: the next tidewire sync finishes its last plan, then releases it",))


def changed(storage: Storage, change: Callable[[State], State]) -> bool:
    """Change the state of a sync that does not run. ``False`` if it left a plan that must be carried out first."""
    from tidewire.spark.ledger import Ledger, required_owner

    ledger = Ledger.open(storage, required_owner(storage), tell=tell)
    try:
        found = ledger.recover()
        state = change(found.state)
        if found.unfinished is None:
            ledger.remember(state)
        return found.unfinished is None
    finally:
        ledger.close()


# What both kinds of commands, holds and rejects, need


def opened(target: str) -> Storage:
    """The ledger of a target that a sync has written to."""
    try:
        from tidewire.spark.ledger import ledger_of, required_owner
    except ModuleNotFoundError as error:
        raise missing(error, "sync") from error
    storage = ledger_of(target)
    required_owner(storage)
    return storage


def state_of(storage: Storage) -> State:
    """What a sync remembers, as far as it is kept."""
    from tidewire.spark.ledger import newest_state
    from tidewire.sync.state import State

    return newest_state(storage) or State("")


def asked(storage: Storage, verb: str, arguments: Mapping[str, str]) -> Answer | None:
    """What the running sync answers; ``None`` if no sync runs."""
    from tidewire.spark.ledger import ask

    return ask(storage, verb, arguments, seconds=ANSWER_SECONDS, tell=tell)


def tell(line: str) -> None:
    """Say what is being waited for, beside the output."""
    click.echo(line, err=True)


def print_answer(answer: Answer, output: str) -> None:
    """Print what came of a request; exit code 1 if it was refused."""
    if output == "json":
        write_line({"ok": answer.ok, "lines": list(answer.lines)})
    else:
        for line in answer.lines:
            click.echo(line, err=not answer.ok)
    if not answer.ok:
        sys.exit(1)


def print_lines(lines: Sequence[Mapping[str, Any]], output: str, nothing: str) -> None:
    """Print objects as lines of JSON or as a table; ``nothing`` if a table would be empty."""
    if output == "json":
        for line in lines:
            write_line(dict(line))
        return
    if not lines:
        click.echo(nothing)
        return
    table = Table(header_style="bold", box=None, pad_edge=False)
    for name in lines[0]:
        table.add_column(name, overflow="fold")
    for line in lines:
        table.add_row(*(Text("" if value is None else str(value)) for value in line.values()))
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def print_one(line: Mapping[str, Any], output: str) -> None:
    """Print one object: as JSON, or each member on a line of its own."""
    if output == "json":
        write_line(dict(line))
        return
    width = max(map(len, line))
    for name, value in line.items():
        click.echo(f"{name:<{width}}  {'' if value is None else value}")


def _hold_line(hold: Hold, target: str) -> dict[str, Any]:
    from tidewire.spark.report import describe_hold

    line = describe_hold(hold)
    more = {} if hold.count == 1 else {"messages": hold.count}
    return {**line, "table": _table(hold), **more, "way_out": way_out(hold, target)}


def _loss_line(loss: Loss) -> dict[str, Any]:
    table = "all tables" if loss.table is None else str(loss.table)
    return {"table": table, "released": loss.released, "ts": loss.ts, "at": str(loss.at), "reason": loss.reason}


def _table(hold: Hold) -> str:
    return "all tables" if hold.table is None else str(hold.table)
