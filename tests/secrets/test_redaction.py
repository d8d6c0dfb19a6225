from __future__ import annotations

import pickle
from urllib.parse import quote

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from changefeed.config.config_requests import AVRO_FILE, NOW
from tidewire.changefeed.config.replica import from_json, from_toml, to_json, with_schema_registry
from tidewire.changefeed.config.uri import SinkURI
from tidewire.changefeed.config.validate import Request, validate
from tidewire.errors import ChangefeedError
from tidewire.secrets import Secret, SecretURI, is_secret, redacted

MARK, RAW_MARK = "§", "~"
"""In every password, and in nothing else that is printed."""

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=9)
PASSWORDS = st.tuples(TEXTS, TEXTS).map(MARK.join)
RAW_TEXTS = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=9)
RAW_PASSWORDS = st.tuples(RAW_TEXTS, RAW_TEXTS).map(RAW_MARK.join)
TEMPLATES = (
    "kafka://user:{}@127.0.0.1:9092/topic?protocol=avro",
    "kafka://127.0.0.1:9092/topic?protocol=simple&sasl-password={}&sasl-user=me",
    "kafka://127.0.0.1:9092/topic?protocol=avro&schema-registry=http%3A%2F%2Fme%3A{}%40registry%3A8081",
    "s3://bucket/prefix?access-key=A&secret-access-key={}",
    "azblob://container/prefix?account-name=me&account-key={}&sas-token={}",
    "mysql://root:{}@127.0.0.1:3306/",
)


def marked(text: str) -> bool:
    """Is a piece of a password in a text, plain or encoded?"""
    return any(form in text for form in (MARK, quote(MARK), quote(quote(MARK))))


@pytest.mark.parametrize("template", TEMPLATES)
@settings(max_examples=50)
@given(PASSWORDS)
def test_a_password_is_never_in_the_redacted_uri(template: str, password: str) -> None:
    encoded = quote(password, safe="")
    nested = quote(encoded, safe="") if "%3A%2F%2F" in template else encoded

    assert not marked(redacted(template.replace("{}", nested)))


@pytest.mark.parametrize("template", TEMPLATES)
@settings(max_examples=20)
@given(PASSWORDS)
def test_a_password_is_in_no_error_and_no_repr(template: str, password: str) -> None:
    uri = template.replace("{}", quote(password, safe=""))
    request = Request(uri, "feed", NOW, from_toml(AVRO_FILE).config)

    try:
        text = repr(validate(request))
    except ChangefeedError as error:
        text = str(error)

    assert not marked(text + repr(request))


@given(RAW_PASSWORDS)
@example("~hu/sh?x@y")
@example("hu/sh?x=y~")
@example("hush#~hash")
@example("%zz~%zz")
def test_a_password_before_the_host_that_nobody_encoded_is_not_shown(password: str) -> None:
    assume(not password[0].isdigit() and not {"@", "="} <= set(password))

    assert RAW_MARK not in shown(f"kafka://user:{password}@127.0.0.1:9092/topic?protocol=avro")


@given(RAW_PASSWORDS)
@example("a&~&b")
@example("a#~@b")
def test_a_password_among_the_parameters_that_nobody_encoded_is_not_shown(password: str) -> None:
    assume("=" not in password)

    assert RAW_MARK not in shown(f"kafka://127.0.0.1:9092/topic?protocol=avro&sasl-password={password}&sasl-user=me")


def shown(uri: str) -> str:
    """Everything that is printed about a URI."""
    try:
        return redacted(uri) + repr(SinkURI.parse(uri))
    except ChangefeedError as error:
        return redacted(uri) + str(error)


@settings(max_examples=20)
@given(st.text(st.characters(min_codepoint=97, max_codepoint=122), max_size=9).map("QQ{}QQ".format))
def test_a_configuration_shows_no_secret(password: str) -> None:
    file = f"""
    [consistent]
    storage = "s3://bucket/redo?secret-access-key={password}"
    [sink.kafka-config]
    sasl-password = "{password}"
    sasl-gssapi-password = "{password}"
    sasl-oauth-client-secret = "{password}"
    sasl-oauth-token-url = "https://me:{password}@auth/token"
    [sink.kafka-config.glue-schema-registry-config]
    access-key = "{password}"
    secret-access-key = "{password}"
    token = "{password}"
    [sink.kafka-config.large-message-handle]
    claim-check-storage-uri = "s3://me:{password}@bucket/large?sas-token={password}"
    """
    config = with_schema_registry(from_toml(file).config, f"http://me:{password}@registry")

    assert password not in repr(config)
    assert password not in str(to_json(config, redact=True))
    assert str(to_json(config)).count(password) == 11
    assert from_json(to_json(config)).config == config


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("kafka://h:9092/t?protocol=avro", "kafka://h:9092/t?protocol=avro"),
        ("kafka://me@h:9092/t", "kafka://me@h:9092/t"),
        ("kafka://me:pw@h:9092/t", "kafka://me:xxxxx@h:9092/t"),
        ("file:///data/x?protocol=csv", "file:///data/x?protocol=csv"),
        (
            "kafka://h/t?sasl-oauth-token-url=https://me:pw@auth/token",
            "kafka://h/t?sasl-oauth-token-url=https://me:xxxxx@auth/token",
        ),
        ("kafka://h/t?enable-tls&sasl-password=&x=1", "kafka://h/t?enable-tls&sasl-password=&x=1"),
        ("me:pw@h", "me:xxxxx@h"),
        ("pw@h:9092/t", "xxxxx"),
        ("", ""),
    ],
)
def test_what_is_left_of_a_uri(uri: str, shown: str) -> None:
    assert redacted(uri) == shown


@pytest.mark.parametrize("name", ["sasl-password", "PASSWD", "secret-access-key", "sas-token", "account-key", "sig"])
def test_names_of_secrets(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", ["sasl-user", "key", "protocol", "sasl-oauth-token-url", "kafka-client-id"])
def test_names_of_what_may_be_seen(name: str) -> None:
    assert not is_secret(name)


def test_secrets_work_as_text_and_survive_pickling() -> None:
    secret, uri = Secret("hush"), SecretURI("http://me:hush@host")

    assert (secret, uri) == ("hush", "http://me:hush@host")
    assert pickle.loads(pickle.dumps((secret, uri))) == (secret, uri)
    assert repr((secret, uri)) == "('xxxxx', 'http://me:xxxxx@host')"
