"""Many messages at once: typed Arrow columns from any protocol."""

from tidewire.arrow.convert import Policy, ZeroDates
from tidewire.arrow.declare import declared
from tidewire.arrow.decode import BatchDecoder, Decoded, Reject, decode_batch
from tidewire.arrow.encode import encode_batch
from tidewire.arrow.plan import OpCode, Plan
from tidewire.arrow.types import Engines, arrow_type, engines

__all__ = [
    "BatchDecoder",
    "Decoded",
    "Engines",
    "OpCode",
    "Plan",
    "Policy",
    "Reject",
    "ZeroDates",
    "arrow_type",
    "declared",
    "decode_batch",
    "encode_batch",
    "engines",
]
