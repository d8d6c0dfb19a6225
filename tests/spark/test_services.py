"""Which servers must answer before Spark is started."""

from __future__ import annotations

import socket

import pytest

from command_line import closed_port
from tidewire.errors import OptionError
from tidewire.spark.services import Server, catalog_servers, check_catalog_answers, check_master
from tidewire.sync.catalog_settings import CatalogSettings


@pytest.mark.parametrize(
    ("uri", "servers"),
    [
        ("https://catalog.example/api", [("catalog.example", 443)]),
        ("http://me:pass@catalog.example:8181/api", [("catalog.example", 8181)]),
        ("http://[::1]:8181", [("::1", 8181)]),
        ("http://[::1]/api", [("::1", 80)]),
        ("jdbc:postgresql://one:5432,two/catalogs?ssl=true", [("one", 5432), ("two", 5432)]),
        ("jdbc:mysql://db.example/catalogs", [("db.example", 3306)]),
        ("thrift://one:9083,thrift://two", [("one", 9083), ("two", 9083)]),
        ("jdbc:sqlite:/data/catalog.db", []),
        ("jdbc:postgresql:catalogs", []),
        ("", []),
    ],
)
def test_the_servers_are_those_that_the_uri_of_a_catalog_names(uri: str, servers: list[Server]) -> None:
    assert list(catalog_servers(uri)) == servers


def test_one_server_that_answers_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"

        check_master(f"spark://127.0.0.1:{closed_port()},{address}")
        check_catalog_answers(CatalogSettings("lake", {"type": "rest", "uri": f"http://{address}"}))
    check_master("local[*]")
    check_catalog_answers(None)


def test_a_catalog_that_does_not_answer_is_named_unless_a_proxy_leads_to_it() -> None:
    dead = {"type": "rest", "uri": f"http://127.0.0.1:{closed_port()}"}

    with pytest.raises(OptionError, match=r"option catalog\.lake\.uri: no server answers \(127.*check the address"):
        check_catalog_answers(CatalogSettings("lake", dead))
    check_catalog_answers(CatalogSettings("lake", {**dead, "rest.client.proxy.hostname": "proxy.example"}))
