"""Listening: on a port that is free, and not on one that is taken."""

from __future__ import annotations

import pytest

from tidewire.changefeed.http.app import listening_socket
from tidewire.errors import ChangefeedError


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_port_0_is_any_that_is_free(host: str) -> None:
    with listening_socket(host, 0) as listening:
        assert listening.getsockname()[1] > 0


def test_a_port_that_is_taken_is_refused() -> None:
    with listening_socket("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        with pytest.raises(ChangefeedError, match=rf"cannot listen on 127\.0\.0\.1:{port}: Address already in use"):
            listening_socket("127.0.0.1", port)


def test_a_host_that_is_nowhere_is_refused() -> None:
    with pytest.raises(ChangefeedError, match="CDC:ErrServeHTTP"):
        listening_socket("no.such.host.invalid", 0)
