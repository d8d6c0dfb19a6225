"""Events that go through Craft come out as they went in."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codec.craft.craft_messages import covered, facts
from strategies import DDLS, WATERMARKS, streams
from tidewire.codec import Options
from tidewire.codec.craft import decode, encode, inspect


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_batch_size": 1},
        {"max_batch_size": 3},
        {"max_message_bytes": 300},
        {"delete_only_output_handle_key_columns": True},
    ],
)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_goes_in_comes_out(options: dict[str, Any], data: st.DataObject) -> None:
    stream = data.draw(streams(st.one_of(DDLS, WATERMARKS)))

    messages = list(encode(stream, **options))

    got = [facts(event, Options()) for message in messages for event in decode(message)]
    assert got == [facts(event, Options(**options)) for event in stream]
    for message in messages:
        assert covered(inspect(message)) == message.value
