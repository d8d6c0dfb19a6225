"""Errors under TiCDC's names."""

from __future__ import annotations

import pytest

from tidewire.changefeed.service.errors import code_of, error_text
from tidewire.errors import (
    ChangefeedError,
    DecodeError,
    EncodeError,
    MessageTooLarge,
    MissingExtra,
    OptionError,
    RegistryError,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ChangefeedError("CDC:ErrX", "no"), "CDC:ErrX"),
        (RegistryError("http://registry", "incompatible", 409), "CDC:ErrAvroSchemaAPIError"),
        (MessageTooLarge("simple", "a.b", 10, 5), "CDC:ErrMessageTooLarge"),
        (EncodeError("avro", "no"), "CDC:ErrUnknown"),
        (DecodeError("avro", "no"), "CDC:ErrUnknown"),
        (MissingExtra("confluent-kafka", "kafka"), "CDC:ErrChangefeedUnretryable"),
        (OptionError("schema-registry", "no"), "CDC:ErrChangefeedUnretryable"),
        (RuntimeError("boom"), "CDC:ErrUnknown"),
    ],
)
def test_every_error_has_a_code(error: Exception, code: str) -> None:
    assert code_of(error) == code


def test_errors_of_others_say_their_kind() -> None:
    assert error_text(RuntimeError("boom")) == "RuntimeError: boom"
    assert error_text(ChangefeedError("CDC:ErrX", "no")) == "[CDC:ErrX]no"
