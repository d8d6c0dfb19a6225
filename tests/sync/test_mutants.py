"""Every rule is needed: a consumer that breaks it is found out."""

from __future__ import annotations

import pytest

from sync.consumer import Clumsy
from sync.following import first_failure
from sync.mutants import MUTANTS

ENOUGH = 1500
"""The rarest mistake shows in one history of some hundred."""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_broken_rule_is_found_out(mutant: type[Clumsy]) -> None:
    assert first_failure(range(ENOUGH), mutant) is not None
