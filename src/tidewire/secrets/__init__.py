"""What must never be printed, and how it is kept out of what is."""

from tidewire.secrets.redaction import MASK, NO_SECRET, NO_URI, Secret, SecretURI, is_secret, redacted
from tidewire.secrets.scrubbing import scrubbed, secrets_in, secrets_in_uri

__all__ = [
    "MASK",
    "NO_SECRET",
    "NO_URI",
    "Secret",
    "SecretURI",
    "is_secret",
    "redacted",
    "scrubbed",
    "secrets_in",
    "secrets_in_uri",
]
