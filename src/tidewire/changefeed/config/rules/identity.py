"""Names and timestamps of changefeeds."""

from __future__ import annotations

import re

from tidewire.changefeed.config.rules.candidate import CandidateConfig, Rule, inside

LONGEST_ID = 128
_ID = re.compile(r"[a-zA-Z0-9]+(-[a-zA-Z0-9]+)*")


def _id(candidate: CandidateConfig) -> str | None:
    if _ID.fullmatch(candidate.changefeed_id) and len(candidate.changefeed_id) <= LONGEST_ID:
        return None
    reason = f"the changefeed id {candidate.changefeed_id!r} must be letters and digits with single dashes between them"
    return inside("CDC:ErrInvalidChangefeedID", f"{reason}, {LONGEST_ID} characters at most")


def _taken(candidate: CandidateConfig) -> str | None:
    if candidate.changefeed_id not in candidate.taken:
        return None
    return f"there is a changefeed {candidate.changefeed_id} already; choose another id or remove that one"


def _future(candidate: CandidateConfig) -> str | None:
    if candidate.start_ts <= candidate.now:
        return None
    return f"start-ts {candidate.start_ts} is in the future; the newest timestamp upstream is {candidate.now}"


def _collected(candidate: CandidateConfig) -> str | None:
    if not candidate.config.check_gc_safe_point or candidate.start_ts > candidate.gc_safe_point:
        return None
    return (
        f"start-ts {candidate.start_ts} is not after the GC safe point {candidate.gc_safe_point}: its history is gone"
    )


def _target(candidate: CandidateConfig) -> str | None:
    if not candidate.target_ts or candidate.target_ts > candidate.start_ts:
        return None
    return f"target-ts {candidate.target_ts} must be after start-ts {candidate.start_ts}"


RULES = (
    Rule("CDC:ErrAPIInvalidParam", _id),
    Rule("CDC:ErrChangeFeedAlreadyExists", _taken),
    Rule("CDC:ErrAPIInvalidParam", _future),
    Rule("CDC:ErrStartTsBeforeGC", _collected),
    Rule("CDC:ErrTargetTsBeforeStartTs", _target),
)
