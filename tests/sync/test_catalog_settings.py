"""What a target remembers of its catalog, and what it must be told again."""

from __future__ import annotations

import pytest

from tidewire.errors import OptionError
from tidewire.sync.catalog_settings import CatalogSettings, RememberedCatalog
from tidewire.sync.config import read_config
from tidewire.sync.documents import decode, encode

TEXT = """
[catalog.lake]
type = "rest"
uri = "https://user:hush@catalog.example/v1"
credential = "${CLIENT}:${CLIENT_SECRET}"
token = "plain-token"
scope = ["a", "b"]
"rest.page-size" = 50
header.X-Cost-Center = "$${not a variable"
"""
ENVIRONMENT = {"CLIENT": "me", "CLIENT_SECRET": "hush-hush"}


def test_a_target_remembers_no_secret_but_which_variables_hold_one() -> None:
    catalog = read_config(TEXT, ENVIRONMENT, []).catalog_named("lake")
    assert catalog is not None
    assert catalog.settings["credential"] == "me:hush-hush"

    document = encode(catalog.remembered())

    assert not any(secret in document for secret in (b"hush", b"plain-token"))
    remembered = decode(document, RememberedCatalog)
    assert remembered.secret == ("token", "uri")
    assert remembered.settings["credential"] == "${CLIENT}:${CLIENT_SECRET}"
    with pytest.raises(OptionError, match="does not remember token, uri of the catalog lake, because it is secret"):
        CatalogSettings.recalled(remembered, ENVIRONMENT)
    more = {"uri": catalog.settings["uri"], "token": "plain-token"}
    assert CatalogSettings.recalled(remembered, ENVIRONMENT, more).settings == catalog.settings


def test_a_variable_that_is_missing_later_is_named() -> None:
    catalog = read_config('[catalog.c]\ntype = "rest"\ntoken = "${TOKEN}"', {"TOKEN": "t"}, []).catalog_named("c")
    assert catalog is not None

    with pytest.raises(OptionError, match="there is no environment variable TOKEN") as caught:
        CatalogSettings.recalled(catalog.remembered(), {})

    assert caught.value.name == "catalog.c.token"


def test_settings_are_not_in_the_repr() -> None:
    assert repr(CatalogSettings("lake", {"token": "hush"}, {"token": "hush"})) == "CatalogSettings(name='lake')"
