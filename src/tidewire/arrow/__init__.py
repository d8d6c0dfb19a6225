"""Many messages at once: typed Arrow columns from any protocol."""

from tidewire.arrow.declared_types import declared
from tidewire.arrow.decode import BatchDecoder, Decoded, Reject, Rows, decode_batch
from tidewire.arrow.encode import encode_batch
from tidewire.arrow.kernel import Kernel
from tidewire.arrow.plan import Notice, OpCode, Plan
from tidewire.arrow.policy import Policy, ZeroDates
from tidewire.arrow.types import Engines, arrow_type, engines

__all__ = [
    "BatchDecoder",
    "Decoded",
    "Engines",
    "Kernel",
    "Notice",
    "OpCode",
    "Plan",
    "Policy",
    "Reject",
    "Rows",
    "ZeroDates",
    "arrow_type",
    "declared",
    "decode_batch",
    "encode_batch",
    "engines",
]
