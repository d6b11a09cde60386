"""What the server keeps in its folder: the secret, the tokens it made, and those it takes back.

Every file has mode 0600. The tokens themselves are not kept, but for the first one, which nobody
could otherwise know. Several servers may share the folder: each sees what the others write.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from taskyard.domain.errors import ConfigurationError, NotFound
from taskyard.server.roles import Caller, Role
from taskyard.server.tokens import Signer, has_expired

SECRET = "secret"  # noqa: S105 - the name of a file
LIST = "tokens.json"
FIRST = "admin-token"
LOOK_AGAIN = 0.5  # seconds for which what was read of the list is taken to be so


class Issued(msgspec.Struct, frozen=True, kw_only=True):
    """A token as the list has it: all but the token."""

    id: str
    name: str
    role: Role
    expires: int
    made_at: int
    made_by: str
    revoked_at: int | None = None
    revoked_by: str | None = None


class Keyring:
    def __init__(self, folder: Path, secret: str | None = None) -> None:
        self._folder = folder
        self._list = folder / LIST
        self._make_folder()
        self._signer = Signer(secret.encode() if secret else self._own_secret())
        self._seen: tuple[int, int, int] | None = None
        self._looked = 0.0
        self._revoked: frozenset[str] = frozenset()

    # --- reading ---

    def read(self, token: str) -> Caller | None:
        """Whom a token stands for, if it is good."""
        caller = self._signer.read(token)
        return None if caller is None or self._is_revoked(caller) else caller

    def still_good(self, caller: Caller) -> bool:
        """For those who stay connected; not if that cannot be told."""
        try:
            return not has_expired(caller) and not self._is_revoked(caller)
        except ConfigurationError:
            return False

    def _is_revoked(self, caller: Caller) -> bool:
        now = time.monotonic()
        if now - self._looked >= LOOK_AGAIN:
            self._look()
            self._looked = now
        return caller.id in self._revoked

    def _look(self) -> None:
        try:
            found = self._list.stat()
        except FileNotFoundError:
            return  # what was revoked stays so
        mark = (found.st_mtime_ns, found.st_size, found.st_ino)
        if mark != self._seen:
            self._revoked |= {one.id for one in self.issued() if one.revoked_at is not None}
            self._seen = mark

    def issued(self) -> list[Issued]:
        """Those made here, oldest first."""
        try:
            return msgspec.json.decode(self._list.read_bytes(), type=list[Issued])
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ConfigurationError(f"{self._list} cannot be read: {error.strerror}") from None
        except msgspec.MsgspecError as error:
            raise ConfigurationError(f"{self._list} cannot be read: {error}") from None

    # --- changing ---

    def issue(self, name: str, role: Role, *, days: float | None, by: str) -> tuple[str, Issued]:
        token, made = self.sign(name, role, days=days, by=by)
        self.keep(made)
        return token, made

    def sign(self, name: str, role: Role, *, days: float | None, by: str) -> tuple[str, Issued]:
        """A token that is not in the list yet."""
        token, caller = self._signer.make(name, role, days=days)
        made = Issued(
            id=caller.id,
            name=name,
            role=role,
            expires=caller.expires,
            made_at=int(time.time()),
            made_by=by,
        )
        return token, made

    def keep(self, made: Issued) -> None:
        with self._locked():
            self._write_list([*self.issued(), made])

    def revoke(self, token_id: str, *, by: str) -> Issued:
        with self._locked():
            every = {one.id: one for one in self.issued()}
            if token_id not in every:
                raise NotFound(f"there is no token {token_id}")
            if every[token_id].revoked_at is None:
                every[token_id] = msgspec.structs.replace(
                    every[token_id], revoked_at=int(time.time()), revoked_by=by
                )
                self._write_list(list(every.values()))
        self._looked = 0.0
        return every[token_id]

    def first(self) -> str | None:
        """On a folder without tokens, the first one, for an admin; None if there are some."""
        with self._locked():
            if self.issued():
                return None
            token, made = self.sign("first", Role.ADMIN, days=None, by="system")
            _write(self.first_file, f"{token}\n".encode())
            self._write_list([made])
        return token

    @property
    def first_file(self) -> Path:
        return self._folder / FIRST

    # --- files ---

    def _make_folder(self) -> None:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"{self._folder} cannot be made: {error.strerror}") from None

    def _own_secret(self) -> bytes:
        path = self._folder / SECRET
        with self._locked():
            if not path.exists():
                _write(path, secrets.token_hex(32).encode() + b"\n")
        with _told(path):
            if stat.S_IMODE(path.stat().st_mode) & 0o077:
                raise ConfigurationError(f"{path} can be read by others; run: chmod 600 {path}")
            return path.read_bytes().strip()

    def _write_list(self, issued: list[Issued]) -> None:
        _write(self._list, msgspec.json.format(msgspec.json.encode(issued)))

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """One who changes at a time, of all processes."""
        path = self._folder / "lock"
        with _told(path):
            lock = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def _write(path: Path, content: bytes) -> None:
    """Wholly or not at all, and never readable by others."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with _told(path):
        opened = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        with os.fdopen(opened, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """What the system says of a file, in words for whoever set it up."""
    try:
        yield
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be used: {error.strerror}") from None
