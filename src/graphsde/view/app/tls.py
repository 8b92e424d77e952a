"""The page's certificate and its key, checked before anything is served."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from graphsde.base.errors import BadInput, BadUsage
from graphsde.base.storage import io_error
from graphsde.io.opening import require_regular, status_of

MAKE_ONE = (
    "create a pair for tests with: openssl req -x509 -newkey rsa:2048 -nodes -days 365 -subj /CN=localhost "
    "-keyout key.pem -out cert.pem"
)


@dataclass(frozen=True)
class Certificate:
    """Two PEM files.

    Args:
        chain: the certificate, and those between it and an authority that browsers know.
        key: its private key, without a passphrase.
    """

    chain: Path
    key: Path

    def checked(self) -> Certificate:
        """The same, after checking that both can be read and match."""
        for path in (self.chain, self.key):
            require_regular(path, status_of(path))
        try:
            # a passphrase would be requested on the terminal, where no one may be present
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.chain, self.key, password=_no_passphrase)
        except ssl.SSLError as error:
            raise self._refusal(error.reason or "") from None
        except OSError as error:
            raise io_error("read", self.key, error) from error
        return self

    def _refusal(self, reason: str) -> BadInput:
        if reason == "KEY_VALUES_MISMATCH":
            message, fix = (
                f"{self.key.name} is not the key of {self.chain.name}",
                "use a matching pair",
            )
        else:
            message, fix = f"{self.chain.name} and {self.key.name} can't be read as a certificate and its key", MAKE_ONE
        expected = "two PEM files; --certificate has BEGIN CERTIFICATE, --key has BEGIN PRIVATE KEY"
        return BadInput(message, code="E-CERTIFICATE", place=str(self.chain), expected=expected, fix=fix)


def _no_passphrase() -> str:
    raise BadInput(
        "the key has a passphrase",
        code="E-CERTIFICATE",
        expected="an unencrypted key that only you can read",
        fix="openssl pkey -in KEY -out PLAIN-KEY, then chmod 600 PLAIN-KEY",
    )


def certificate_of(chain: Path | None, key: Path | None) -> Certificate | None:
    """Both options or neither."""
    if chain is None and key is None:
        return None
    if chain is None or key is None:
        given, missing = ("--key", "--certificate") if chain is None else ("--certificate", "--key")
        raise BadUsage(f"{given} needs {missing} as well", expected="both, or neither", fix=MAKE_ONE)
    return Certificate(chain, key)
