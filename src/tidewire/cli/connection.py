"""How the ``cli`` verbs reach a server, and what they have in common."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import click

from tidewire.changefeed.http.authentication import Credentials
from tidewire.changefeed.http.client import ApiClient
from tidewire.errors import ChangefeedError
from tidewire.secrets import Secret

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

DEFAULT_SERVER = "http://127.0.0.1:8300"


class ApiCommand(click.Command):
    """A verb that asks a server: a refusal ends it with 1. ``--name = value`` is taken as ``--name=value``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Leave out equals signs that stand alone after an option, as TiCDC's documents print some."""
        kept = [
            word
            for before, word in zip(["", *args], args, strict=False)
            if not (word == "=" and before.startswith("--") and "=" not in before)
        ]
        return super().parse_args(ctx, kept)

    def invoke(self, ctx: click.Context) -> Any:
        """Run it."""
        try:
            return super().invoke(ctx)
        except ChangefeedError as error:
            raise click.ClickException(str(error)) from error


class ApiGroup(click.Group):
    """Verbs that ask a server."""

    command_class = ApiCommand
    group_class = type


CHANGEFEED_ID = click.option("--changefeed-id", "-c", required=True, metavar="ID", help="The changefeed.")
NO_CONFIRM = click.option("--no-confirm", is_flag=True, help="Answer every question with yes.")


def connected(command: Decorated) -> Decorated:
    """``--server`` and what goes with it; the verb gets an ``ApiClient`` as its first argument."""

    @wraps(command)
    def with_client(
        server: str, namespace: str, auth_token: str, basic_user: str, basic_password: str, **rest: Any
    ) -> Any:
        credentials = credentials_of(auth_token, basic_user, basic_password)
        return command(ApiClient(server, credentials, namespace), **rest)

    for option in reversed(_OPTIONS):
        with_client = option(with_client)
    return with_client  # type: ignore[return-value]


def credentials_of(token: str, user: str, password: str) -> Credentials:
    """Credentials from their options; ``user:password`` may stand together."""
    if not password:
        user, _, password = user.partition(":")
    return Credentials(Secret(token), user, Secret(password))


def credential_options() -> tuple[Callable[[Decorated], Decorated], ...]:
    """``--auth-token``, ``--basic-user`` and ``--basic-password``; secrets are better in the environment."""
    names = ("auth-token", "basic-user", "basic-password")
    helps = (
        "The token that clients send to the server.",
        "The user, instead of a token: NAME or NAME:PASSWORD.",
        "The user's password.",
    )
    return tuple(
        click.option(
            f"--{name}",
            default="",
            metavar="TEXT",
            envvar=f"TIDEWIRE_{name.upper().replace('-', '_')}",
            show_envvar=True,
            help=text,
        )
        for name, text in zip(names, helps, strict=True)
    )


_OPTIONS = (
    click.option(
        "--server",
        default=DEFAULT_SERVER,
        show_default=True,
        envvar="TIDEWIRE_SERVER",
        show_envvar=True,
        metavar="URL",
        help="The server.",
    ),
    click.option(
        "--namespace",
        "--keyspace",
        "-n",
        "-k",
        default="default",
        show_default=True,
        metavar="NAME",
        help="The namespace, which newer servers call keyspace.",
    ),
    *credential_options(),
)


def print_json(document: Any) -> None:
    """A document for people and programs."""
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))
