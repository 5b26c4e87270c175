"""Environment variables that name the PEM files of a client of a server: pipelines, senders."""

from typing import Final

#: The certificates that servers are checked against.
ROOTS_VARIABLE: Final = "MAYFLY_TLS_ROOTS"
#: A client's own certificate chain and its key, which some servers ask for.
CERTIFICATE_VARIABLE: Final = "MAYFLY_TLS_CERTIFICATE"
KEY_VARIABLE: Final = "MAYFLY_TLS_KEY"
