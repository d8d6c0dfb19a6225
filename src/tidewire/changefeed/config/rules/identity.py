"""Names and timestamps of changefeeds."""

from __future__ import annotations

import re

from tidewire.changefeed.config.rules.draft import Draft, Rule, inside

LONGEST_ID = 128
_ID = re.compile(r"[a-zA-Z0-9]+(-[a-zA-Z0-9]+)*")


def _id(draft: Draft) -> str | None:
    if _ID.fullmatch(draft.changefeed_id) and len(draft.changefeed_id) <= LONGEST_ID:
        return None
    reason = f"the changefeed id {draft.changefeed_id!r} must be letters and digits with single dashes between them"
    return inside("CDC:ErrInvalidChangefeedID", f"{reason}, {LONGEST_ID} characters at most")


def _taken(draft: Draft) -> str | None:
    if draft.changefeed_id not in draft.taken:
        return None
    return f"there is a changefeed {draft.changefeed_id} already; choose another id or remove that one"


def _future(draft: Draft) -> str | None:
    if draft.start_ts <= draft.now:
        return None
    return f"start-ts {draft.start_ts} is in the future; the newest timestamp upstream is {draft.now}"


def _collected(draft: Draft) -> str | None:
    if not draft.config.check_gc_safe_point or draft.start_ts > draft.gc_safe_point:
        return None
    return f"start-ts {draft.start_ts} is not after the GC safe point {draft.gc_safe_point}: its history is gone"


def _target(draft: Draft) -> str | None:
    if not draft.target_ts or draft.target_ts > draft.start_ts:
        return None
    return f"target-ts {draft.target_ts} must be after start-ts {draft.start_ts}"


RULES = (
    Rule("CDC:ErrAPIInvalidParam", _id),
    Rule("CDC:ErrChangeFeedAlreadyExists", _taken),
    Rule("CDC:ErrAPIInvalidParam", _future),
    Rule("CDC:ErrStartTsBeforeGC", _collected),
    Rule("CDC:ErrTargetTsBeforeStartTs", _target),
)
