"""Tokens: made, shown once, expired, taken back."""

from __future__ import annotations

import hmac
import stat
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.pretty import pretty_repr

from taskyard.domain.errors import ConfigurationError, InvalidOption, NotFound
from taskyard.server import keyring
from taskyard.server.api.session import Login
from taskyard.server.api.tokens import MadeToken
from taskyard.server.config import ServerConfig
from taskyard.server.gate import Headers
from taskyard.server.keyring import LIST, Keyring
from taskyard.server.roles import Role
from taskyard.server.run import Told
from taskyard.server.tokens import Signer
from taskyard.settings import ServerSettings, Setting, Settings
from tests.server.place import Place

SECRET = b"0123456789abcdef"


@pytest.mark.spec("security-6")
def test_a_token_says_whom_it_stands_for() -> None:
    signer = Signer(SECRET)
    token, made = signer.make("ci.main_x", Role.OPERATOR, days=1)
    assert signer.read(token) == made
    assert (made.name, made.role) == ("ci.main_x", Role.OPERATOR)
    assert len(bytes.fromhex(made.id)) * 8 >= 128
    assert len(token.rpartition("_")[2]) * 4 >= 128
    assert signer.make("ci", Role.OPERATOR)[0] != signer.make("ci", Role.OPERATOR)[0]


@pytest.mark.spec("security-6")
def test_a_token_that_was_changed_is_nobodys() -> None:
    signer = Signer(SECRET)
    token, _ = signer.make("ci", Role.VIEWER, days=1)
    for place in range(len(token)):
        other = "A" if token[place] != "A" else "B"
        assert signer.read(token[:place] + other + token[place + 1 :]) is None
    assert signer.read(token[:-1]) is None
    assert signer.read(token + "0") is None
    assert Signer(b"another secret 1").read(token) is None


@pytest.mark.spec("security-6")
def test_tokens_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def compare(one: str, other: str) -> bool:
        asked.append((one, other))
        return False

    monkeypatch.setattr(hmac, "compare_digest", compare)
    Signer(SECRET).read("ty1_abc_def")
    assert asked


def test_a_token_ends_with_its_days(monkeypatch: pytest.MonkeyPatch) -> None:
    signer = Signer(SECRET)
    token, made = signer.make("ci", Role.VIEWER, days=1)
    monkeypatch.setattr(time, "time", lambda: made.expires - 1)
    assert signer.read(token) is not None
    monkeypatch.setattr(time, "time", lambda: made.expires)
    assert signer.read(token) is None


@pytest.mark.parametrize(
    ("name", "days"), [("", 1), ("a" * 101, 1), ("a\n", 1), ("a", 0), ("a", 1e9)]
)
def test_what_cannot_be_a_token_is_refused(name: str, days: float) -> None:
    with pytest.raises(InvalidOption):
        Signer(SECRET).make(name, Role.VIEWER, days=days)


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(InvalidOption, match="16 bytes"):
        Signer(b"short")


@pytest.mark.spec("security-1")
@pytest.mark.spec("security-6")
def test_the_first_token_is_made_once_and_kept_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "server"
    token = Keyring(folder).first()
    assert token is not None
    again = Keyring(folder)
    assert again.first() is None
    caller = again.read(token)
    assert caller is not None
    assert caller.role is Role.ADMIN
    assert again.first_file.read_text().strip() == token
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert set(modes) == {"secret", "tokens.json", "admin-token", "lock"}
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.spec("security-6")
def test_servers_with_the_same_secret_know_each_others_tokens(tmp_path: Path) -> None:
    secret = "of the configuration, not of a file"
    one, other = Keyring(tmp_path / "one", secret), Keyring(tmp_path / "other", secret)
    token, made = one.issue("ci", Role.VIEWER, days=1, by="test")
    caller = other.read(token)
    assert caller is not None
    assert caller.id == made.id
    assert Keyring(tmp_path / "third").read(token) is None
    assert not (tmp_path / "one" / "secret").exists()


@pytest.mark.spec("security-6")
def test_a_secret_that_others_can_read_is_refused(tmp_path: Path) -> None:
    Keyring(tmp_path)
    (tmp_path / "secret").chmod(0o644)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        Keyring(tmp_path)


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError):
        Keyring(tmp_path / "file" / "below")


@pytest.mark.spec("security-6")
def test_a_revoked_token_is_refused_by_every_server_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskyard.server.keyring.LOOK_AGAIN", 0.0)
    one, other = Keyring(tmp_path), Keyring(tmp_path)
    token, made = one.issue("ci", Role.VIEWER, days=None, by="test")
    caller = other.read(token)
    assert caller is not None
    one.revoke(made.id, by="test")
    assert other.read(token) is None
    assert not other.still_good(caller)
    (tmp_path / "tokens.json").unlink()  # what was taken back stays so
    assert other.read(token) is None
    with pytest.raises(NotFound):
        one.revoke("nonsuch", by="test")


def test_a_list_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    keyring = Keyring(tmp_path)
    (tmp_path / "tokens.json").write_text("nonsense")
    with pytest.raises(ConfigurationError, match=r"tokens\.json"):
        keyring.issued()


async def test_while_the_list_cannot_be_read_nobody_is_let_in(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyring, "LOOK_AGAIN", 0.0)
    caller = place.server.keyring.read(place.tokens[Role.VIEWER])
    assert caller is not None
    tokens = place.config.folder / LIST
    whole = tokens.read_bytes()
    tokens.write_text("nonsense")
    answer = await place.caller(Role.ADMIN).get("/api/me")
    assert (answer.status_code, answer.json()["code"]) == (503, "configuration")
    assert str(place.config.folder) not in answer.text
    assert not place.server.keyring.still_good(caller)
    assert (await place.caller(None).get("/healthz")).status_code == 200
    tokens.write_bytes(whole)
    assert (await place.caller(Role.ADMIN).get("/api/me")).status_code == 200
    assert place.server.keyring.still_good(caller)


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()
    with pytest.raises(ConfigurationError, match="lock cannot be used: Is a directory"):
        Keyring(tmp_path)


@pytest.mark.spec("security-18")
async def test_without_a_note_of_it_no_token_is_made(place: Place) -> None:
    before = place.server.keyring.issued()
    await place.yard.close()
    answer = await place.caller(Role.ADMIN).post("/api/tokens", json={"name": "x", "role": "admin"})
    assert answer.status_code == 503
    assert place.server.keyring.issued() == before


@pytest.mark.spec("security-6")
async def test_tokens_over_http(place: Place) -> None:
    admin = place.caller(Role.ADMIN)
    answer = await admin.post("/api/tokens", json={"name": "ci", "role": "viewer", "days": 30})
    assert answer.status_code == 201
    made = answer.json()
    shown = {"Authorization": f"Bearer {made['token']}"}
    stranger = place.caller(None)
    assert (await stranger.get("/api/me", headers=shown)).json()["name"] == "ci"
    listed = await admin.get("/api/tokens")
    assert made["token"] not in listed.text
    assert made["id"] in listed.text
    gone = (await admin.delete(f"/api/tokens/{made['id']}")).json()
    assert gone["revoked_by"] == "api:admin"
    assert (await stranger.get("/api/me", headers=shown)).status_code == 401
    assert (await admin.delete("/api/tokens/nonsuch")).status_code == 404
    for wrong in ({"role": "root"}, {"days": 0}, {"name": ""}, {"more": 1}):
        body = {"name": "x", "role": "viewer", **wrong}
        assert (await admin.post("/api/tokens", json=body)).status_code == 422


SHOWN_NOWHERE = "hunter2-and-more-than-that"
HOLDERS = [
    ServerConfig(secret=SHOWN_NOWHERE),
    ServerSettings(secret=SHOWN_NOWHERE),
    Settings(server=ServerSettings(secret=SHOWN_NOWHERE)),
    Settings(url=f"postgresql://ann:{SHOWN_NOWHERE}@db/yard"),
    Setting("server.secret", SHOWN_NOWHERE, "taskyard.toml"),
    Headers.of(
        [
            (b"authorization", f"Bearer {SHOWN_NOWHERE}".encode()),
            (b"cookie", f"a={SHOWN_NOWHERE}".encode()),
        ]
    ),
    Told("http://localhost", SHOWN_NOWHERE, Path("admin-token")),
    Login(SHOWN_NOWHERE),
]


@pytest.mark.spec("security-10", part="HTTP")
@pytest.mark.parametrize("holder", HOLDERS, ids=lambda holder: type(holder).__name__)
def test_what_holds_a_secret_does_not_show_it(holder: msgspec.Struct) -> None:
    for shown in (repr(holder), str(holder), pretty_repr(holder), f"{[holder]}"):
        assert SHOWN_NOWHERE not in shown
        assert type(holder).__name__ in shown


@pytest.mark.spec("security-10", part="HTTP")
async def test_a_token_that_was_made_is_shown_to_its_maker_alone(place: Place) -> None:
    answer = await place.caller(Role.ADMIN).post(
        "/api/tokens", json={"name": "x", "role": "viewer"}
    )
    made = msgspec.json.decode(answer.content, type=MadeToken)
    assert made.token.startswith("ty1_")
    for shown in (repr(made), pretty_repr(made)):
        assert made.token not in shown
        assert made.id in shown


@pytest.mark.spec("security-5")
async def test_a_token_in_a_url_is_no_token(place: Place) -> None:
    token = place.tokens[Role.ADMIN]
    for name in ("token", "access_token", "Authorization"):
        answer = await place.caller(None).get("/api/me", params={name: token})
        assert answer.status_code == 401


@pytest.mark.spec("security-5")
async def test_tokens_are_not_logged(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    admin = place.caller(Role.ADMIN)
    made = (await admin.post("/api/tokens", json={"name": "ci", "role": "viewer"})).json()
    await place.caller(None).post("/api/login", json={"token": made["token"]})
    await admin.delete(f"/api/tokens/{made['id']}")
    assert "make_token" in caplog.text
    assert "revoke_token" in caplog.text
    assert made["token"] not in caplog.text
    assert place.tokens[Role.ADMIN] not in caplog.text
