"""No secret stays in a text, wherever a configuration has it."""

from __future__ import annotations

from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st

from tidewire.changefeed.config.replica import from_toml
from tidewire.secrets import Secret, scrubbed, secrets_in, secrets_in_uri

CONFIG = """
[sink]
schema-registry = "https://me:registry-word@registry:8081"
[sink.kafka-config]
sasl-user = "me"
sasl-password = "kafka-word"
[sink.kafka-config.large-message-handle]
claim-check-storage-uri = "s3://bucket/prefix?secret-access-key=storage-word"
"""
URI = Secret("kafka://me:user-word@broker:9092/topic?protocol=avro&sasl-password=uri%2Dword&partition-num=3")


def test_all_secrets_of_a_changefeed_are_found_and_nothing_else() -> None:
    found = set(secrets_in((URI, from_toml(CONFIG).config)))

    assert found == {"registry-word", "kafka-word", "storage-word", "user-word", "uri-word", "uri%2Dword"}


def test_a_text_loses_them_all() -> None:
    text = "login of me with user-word, then uri-word and uri%2Dword at topic"

    assert scrubbed(text, secrets_in(URI)) == "login of me with xxxxx, then xxxxx and xxxxx at topic"


def test_the_longest_secret_goes_first() -> None:
    assert scrubbed("abcdef abc", ["abc", "abcdef"]) == "xxxxx xxxxx"


@given(st.text(min_size=3, max_size=20), st.text(max_size=10), st.text(max_size=10))
def test_a_password_in_a_uri_is_found_as_written_and_decoded(word: str, before: str, after: str) -> None:
    uri = f"kafka://me:{quote(word, safe='', errors='replace')}@broker/topic?sasl-password={quote(word, safe='')}"

    assert word in set(secrets_in_uri(uri))
    assert word not in scrubbed(f"{before}{word}{after}", [word]) or word in "xxxxx"
