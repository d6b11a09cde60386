"""Who may do what."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Role(StrEnum):
    VIEWER = "viewer"  # looks
    OPERATOR = "operator"  # acts on tasks, lanes, keys and crons
    ADMIN = "admin"  # manages tokens and prunes
    NODE = "node"  # speaks for itself alone, so none of the routes for people are for it

    def covers(self, needed: Role) -> bool:
        """Whether this role may do what is allowed to that one."""
        if Role.NODE in (self, needed):
            return self is needed
        return _RANK[self] >= _RANK[needed]


_RANK = {Role.VIEWER: 0, Role.OPERATOR: 1, Role.ADMIN: 2}


class Caller(msgspec.Struct, frozen=True):
    """Whom a request comes from."""

    id: str  # of its token
    name: str
    role: Role
    expires: int  # seconds since the epoch; 0: never
    by_cookie: bool = False

    @property
    def actor(self) -> str:
        """As the audit trail says it."""
        return f"api:{self.name}"
