"""What the first messages tell, and what is refused before anything is written."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

import topic_files
from tidewire.codec import PROTOCOLS
from tidewire.errors import OptionError, RegistryError, TidewireError
from tidewire.model import Message
from tidewire.plain import message_from_plain
from tidewire.spark.source.detect import check_readable, completed, has_watermarks

TOPICS = {
    "seed11": ("avro", "canal-json", "open-protocol", "simple-avro", "simple-json"),
    "seed11-classic": ("craft",),
}
FILES = [(topic, name) for topic, names in TOPICS.items() for name in names]


def sample(topic: str, name: str, count: int = 60) -> list[Message]:
    return [message_from_plain(line) for line in islice(topic_files.lines(topic, name), count)]


def protocol_of(name: str) -> str:
    return topic_files.PROTOCOLS.get(name, name)


def options_of(topic: str, name: str, folder: Path) -> dict[str, str]:
    options = {key: str(value).lower() for key, value in topic_files.expected(topic)["options"][name].items()}
    if name == "avro":
        (folder / "schemas.json").write_text(topic_files.read(topic, "avro.schemas.json"))
        options["schema-registry"] = (folder / "schemas.json").as_uri()
    return options


@pytest.mark.parametrize(("topic", "name"), FILES)
def test_the_right_protocol_is_not_refused(topic: str, name: str, tmp_path: Path) -> None:
    messages, protocol = sample(topic, name), protocol_of(name)
    options = completed(protocol, options_of(topic, name, tmp_path), messages)

    check_readable(protocol, options, messages)
    check_readable(protocol, options, [])
    check_readable(protocol, options, [Message(b"?", b"garbage"), *messages[:1]])


@pytest.mark.parametrize("wrong", PROTOCOLS)
@pytest.mark.parametrize(("topic", "name"), [(topic, name) for topic, name in FILES if name != "avro"])
def test_a_wrong_protocol_is_refused_and_the_right_one_named(topic: str, name: str, wrong: str, tmp_path: Path) -> None:
    messages, right = sample(topic, name), protocol_of(name)
    if wrong == right:
        return
    registry = options_of("seed11", "avro", tmp_path)["schema-registry"]
    options = completed(wrong, {"schema-registry": registry} if wrong == "avro" else {}, messages)

    with pytest.raises(OptionError) as refused:
        check_readable(wrong, options, messages)

    assert str(refused.value).startswith(
        f"option protocol: none of the first {len(messages)} messages reads as {wrong}"
    )
    assert f"--protocol {right}" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("wrong", [name for name in PROTOCOLS if name != "avro"])
def test_avro_is_recognised_without_a_registry(wrong: str) -> None:
    messages = [message for message in sample("seed11", "avro", 300) if (message.value or b"")[:1] == b"\0"]
    assert messages

    with pytest.raises(
        OptionError, match=r"they look like Avro: give --protocol avro and --option schema-registry=URL"
    ):
        check_readable(wrong, completed(wrong, {}, messages), messages)


def test_avro_needs_a_registry_even_before_there_are_messages() -> None:
    for messages in ([], sample("seed11", "avro")):
        with pytest.raises(OptionError, match=r"option schema-registry: Avro messages hold only the number"):
            check_readable("avro", {}, messages)


def test_a_registry_that_does_not_answer_is_not_disguised(tmp_path: Path) -> None:
    options = {"schema-registry": (tmp_path / "missing.json").as_uri()}

    with pytest.raises(RegistryError):
        check_readable("avro", options, sample("seed11", "avro"))


def test_options_that_hide_the_messages_are_named() -> None:
    avro = sample("seed11", "simple-avro")

    with pytest.raises(OptionError, match=r"they read as simple with encoding-format=avro: give --option encoding-for"):
        check_readable("simple", {"encoding-format": "json"}, avro)


def test_messages_of_no_protocol_are_shown() -> None:
    with pytest.raises(
        OptionError, match=r"the first message does not read as craft .*the first value begins with b'gar"
    ):
        check_readable("craft", {}, [Message(None, b"garbage")])


def test_a_claim_check_without_its_store_is_told_as_it_is() -> None:
    line = (
        b'{"id":0,"database":"a","table":"t","isDdl":false,"_tidb":{"commitTs":1,"claimCheckLocation":"file:///x/y"}}'
    )

    with pytest.raises(TidewireError, match="claim"):
        check_readable("canal-json", {"enable-tidb-extension": "true"}, [Message(None, line)])


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("open-protocol", {}, True),
        ("craft", {}, True),
        ("avro", {}, False),
        ("avro", {"avro-enable-watermark": "true"}, True),
        ("canal-json", {}, False),
        ("canal-json", {"enable-tidb-extension": "true"}, True),
    ],
)
def test_which_messages_carry_watermarks(name: str, options: dict[str, str], expected: bool) -> None:
    assert has_watermarks(name, options) is expected
