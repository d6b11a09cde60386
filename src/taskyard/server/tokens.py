"""Tokens: made, read and refused. They carry their own proof, so no store is asked.

`ty1_<base64url of id.role.expiry.name>_<HMAC-SHA256, hex>`: 128 random bits in the id, 256 of the
proof. Whoever has the secret can check them; an emptied store does not end them.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
import time

from taskyard.domain.errors import InvalidOption
from taskyard.domain.task import check_name
from taskyard.server.roles import Caller, Role
from taskyard.settings import SHORTEST_SECRET

PREFIX = "ty1_"
MAX_TOKEN = 600  # characters; longer ones are not even looked at
MAX_TOKEN_NAME = 100
MAX_DAYS = 3650
DAY = 86_400


class Signer:
    def __init__(self, secret: bytes) -> None:
        if len(secret) < SHORTEST_SECRET:
            raise InvalidOption(
                f"the secret of a server must have at least {SHORTEST_SECRET} bytes"
            )
        self._secret = secret

    def make(self, name: str, role: Role, *, days: float | None = None) -> tuple[str, Caller]:
        """A new token, and whom it stands for."""
        check_name("name", name)
        if len(name) > MAX_TOKEN_NAME:
            raise InvalidOption(f"the name of a token has at most {MAX_TOKEN_NAME} characters")
        if days is not None and not 0 < days <= MAX_DAYS:
            raise InvalidOption(f"a token lasts more than 0 and at most {MAX_DAYS} days")
        expires = 0 if days is None else int(time.time() + days * DAY)
        caller = Caller(secrets.token_hex(16), name, role, expires)
        said = f"{caller.id}.{role}.{expires}.{name}".encode()
        body = base64.urlsafe_b64encode(said).decode().rstrip("=")
        return f"{PREFIX}{body}_{self._proof(body)}", caller

    def read(self, token: str) -> Caller | None:
        """Whom a token stands for; None if it was not made with this secret, or has expired."""
        if len(token) > MAX_TOKEN or not token.startswith(PREFIX) or not token.isascii():
            return None
        body, _, proof = token[len(PREFIX) :].rpartition("_")
        if not hmac.compare_digest(self._proof(body), proof):
            return None
        try:
            said = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)).decode()
            token_id, role, expires, name = said.split(".", 3)
            caller = Caller(token_id, name, Role(role), int(expires))
        except (ValueError, binascii.Error):
            return None
        return None if has_expired(caller) else caller

    def _proof(self, body: str) -> str:
        return hmac.digest(self._secret, f"{PREFIX}{body}".encode(), "sha256").hex()


def has_expired(caller: Caller) -> bool:
    return bool(caller.expires) and caller.expires <= time.time()
