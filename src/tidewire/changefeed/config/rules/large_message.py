"""What is done with messages above the size limit."""

from __future__ import annotations

from tidewire.changefeed.config.reading import bool_of
from tidewire.changefeed.config.replica import INVALID
from tidewire.changefeed.config.rules.candidate import CandidateConfig, Rule
from tidewire.codec.options import Compression, LargeMessage

_HANDLED = frozenset({"open-protocol", "simple", "canal-json"})


def _option(candidate: CandidateConfig) -> str:
    return candidate.large.large_message_handle_option or LargeMessage.NONE


def _unknown_option(candidate: CandidateConfig) -> str | None:
    if _option(candidate) in set(LargeMessage):
        return None
    return f"large-message-handle-option is {' or '.join(LargeMessage)}, not {_option(candidate)!r}"


def _unknown_compression(candidate: CandidateConfig) -> str | None:
    given = candidate.large.large_message_handle_compression or Compression.NONE
    if given in set(Compression):
        return None
    return f"large-message-handle-compression is {' or '.join(Compression)}, not {given!r}"


def _protocol(candidate: CandidateConfig) -> str | None:
    if _option(candidate) == LargeMessage.NONE or not candidate.protocol or candidate.protocol in _HANDLED:
        return None
    option = _option(candidate)
    return f"large-message-handle-option {option!r} is not for {candidate.protocol}, which cannot mark such messages"


def _extension(candidate: CandidateConfig) -> str | None:
    if _option(candidate) == LargeMessage.NONE or candidate.protocol != "canal-json":
        return None
    if bool_of(candidate.uri.parameters.get("enable-tidb-extension") or "false"):
        return None
    return (
        f"large-message-handle-option {_option(candidate)!r} needs of canal-json the TiDB extension: put "
        "enable-tidb-extension=true into the sink-uri, where this check of TiCDC looks for it"
    )


def _storage(candidate: CandidateConfig) -> str | None:
    if _option(candidate) != LargeMessage.CLAIM_CHECK or candidate.large.claim_check_storage_uri:
        return None
    return "large-message-handle-option 'claim-check' needs a claim-check-storage-uri"


def _raw_value(candidate: CandidateConfig) -> str | None:
    if _option(candidate) != LargeMessage.CLAIM_CHECK or candidate.protocol != "open-protocol":
        return None
    if not candidate.large.claim_check_raw_value:
        return None
    return "claim-check-raw-value is not for open-protocol, whose keys are part of the message; set it to false"


RULES = (
    Rule(INVALID, _unknown_compression),
    Rule(INVALID, _unknown_option),
    Rule(INVALID, _protocol),
    Rule(INVALID, _extension),
    Rule(INVALID, _storage),
    Rule(INVALID, _raw_value),
)
