"""These tests are about the Python kernel's scanners, so it reads even if the native kernel is installed."""

from __future__ import annotations

import pytest

from tidewire.arrow import decode
from tidewire.arrow.kernel import Kernel


@pytest.fixture(autouse=True)
def _python_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "KERNEL", Kernel.PYTHON)
