"""Source URIs: what they say, what they may not say, and that a password stays one."""

from __future__ import annotations

import pytest

from tidewire.changefeed.source.mysql import MysqlSource
from tidewire.changefeed.source.mysql.uri import read_uri
from tidewire.errors import ChangefeedError


def test_every_part_is_read_and_decoded() -> None:
    settings = read_uri(
        "mysql://app%2Fuser:p%40ss%3A%25@db.example:3307/?ssl-ca=ca.pem&ssl-cert=c.pem&ssl-key=k.pem"
        "&time-zone=Europe%2FParis&snapshot=false&server-id=77"
    )

    assert (settings.host, settings.port, settings.user, settings.password) == (
        "db.example",
        3307,
        "app/user",
        "p@ss:%",
    )
    assert (settings.ssl_ca, settings.ssl_cert, settings.ssl_key, settings.tls) == ("ca.pem", "c.pem", "k.pem", True)
    assert (settings.time_zone, settings.snapshot, settings.server_id) == ("Europe/Paris", False, 77)


def test_what_is_left_out_has_the_usual_value() -> None:
    settings = read_uri("mysql://localhost")

    assert (settings.port, settings.user, settings.password, settings.snapshot, settings.tls) == (
        3306,
        "root",
        "",
        True,
        False,
    )
    assert 1 <= settings.server_id < 2**32


def test_a_scheme_can_ask_for_tls() -> None:
    assert read_uri("mysql+ssl://localhost").tls


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("postgres://localhost", "begins with one of mysql"),
        ("mysql:///", "names no host"),
        ("mysql://localhost/shop", "'shop'"),
        ("mysql://localhost:99999/", "port"),
        ("mysql://localhost/?snapshots=false", "'snapshots'; known are"),
        ("mysql://localhost/?snapshot=maybe", "'maybe'"),
        ("mysql://localhost/?time-zone=", "time-zone .* is empty"),
        ("mysql://localhost/?server-id=0", "from 1 to 4294967295"),
        ("mysql://localhost/?ssl-key=k.pem", "belong together"),
    ],
)
def test_a_uri_that_cannot_be_is_refused_with_the_reason(uri: str, said: str) -> None:
    with pytest.raises(ChangefeedError, match=said) as caught:
        read_uri(uri)

    assert caught.value.code == "CDC:ErrMySQLInvalidConfig"


def test_a_password_is_in_no_text() -> None:
    uri = "mysql://reader:hunter2@localhost/?nonsense=1"

    with pytest.raises(ChangefeedError) as caught:
        MysqlSource(uri)

    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(MysqlSource(uri.partition("?")[0]))
    assert "hunter2" not in repr(read_uri(uri.partition("?")[0]))
