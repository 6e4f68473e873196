"""Says in a sentence why a connection with TLS did not come about, and how to mend it, from what gRPC says of it."""

from __future__ import annotations

from typing import Final

_SAID: Final = (
    (
        "certificate has expired",
        "its certificate has expired: put a new one in the place of its tls_cert",
    ),
    ("certificate is not yet valid", "its certificate does not hold yet: look at the clocks of both machines"),
    (
        "Hostname Verification Check failed",
        "its certificate is not for that name: call it by a name in its certificate, or give it one that has this name",
    ),
    ("unsupported certificate purpose", "its certificate is not one for servers: give it another in tls_cert"),
    (
        "WRONG_VERSION_NUMBER",
        "it speaks without TLS: give it tls_cert and tls_key, or leave out tls_ca (ATF_TLS_CA) here",
    ),
    (
        "CERTIFICATE_VERIFY_FAILED",
        "its certificate is not signed by those whom tls_ca (ATF_TLS_CA) names here: name there who signed it",
    ),
)
"""What gRPC's text has in it, and what that means; the first that fits counts."""


def tls_reason(message: str) -> str:
    """Why a server could not be reached, where that has to do with TLS; else empty.

    Args:
        message: gRPC's text.
    """
    if "failed to connect" not in message:
        return ""
    found = next((reason for part, reason in _SAID if part in message), "")
    if not found and message.endswith("Socket closed"):
        # A server that takes no plain connection, or not this certificate, tells nobody but its own log.
        return (
            "it closed the connection at once: if it has TLS, set tls_ca (ATF_TLS_CA) here; if it asks for certificates, set tls_cert and"
            " tls_key to one that has not expired and that its tls_client_ca has signed"
        )
    return found
