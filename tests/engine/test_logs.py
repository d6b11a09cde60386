"""What is logged of a task's life, and what is not."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from taskyard import Context, Retry, Snooze, State, Yard
from taskyard.domain.node import NewNode
from taskyard.engine import redact
from taskyard.engine.log import FIELDS, logger
from taskyard.engine.maintenance.rescue import report
from taskyard.engine.redact import HIDDEN, is_secret, redacted, redacted_text
from taskyard.engine.registry import Style
from taskyard.store.port import ClaimRequest
from tests.engine.waits import ended, working


def told(caplog: pytest.LogCaptureFixture, task_id: str) -> list[tuple[str, str, dict[str, Any]]]:
    """What was logged of this task: level, event and details."""
    return [
        (record.levelname, fields["event"], fields)
        for record in caplog.records
        if (fields := getattr(record, FIELDS, {})).get("task") == task_id
    ]


@pytest.mark.spec("lifecycle-17")
async def test_the_happy_path_is_debug_from_creation_to_end(
    yard: Yard, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "taskyard")

    @yard.task()
    async def parent(ctx: Context) -> None:
        await ctx.enqueue(child.new(url="https://ann:hunter2@example.com/a", api_key="k-1"))

    @yard.task()
    async def child(url: str, api_key: str) -> None: ...

    async with working(yard):
        handle = await parent.enqueue()
        await handle.result(20)
        made = [fields for _, event, fields in _all(caplog) if event == "enqueue"][-1]
        await yard.handle(made["task"]).result(20)

    assert made["args"] == {"url": f"https://ann:{HIDDEN}@example.com/a", "api_key": HIDDEN}
    assert (made["kind"], made["lane"]) == ("child", "default")
    seen = told(caplog, made["task"])
    assert [(level, event) for level, event, _ in seen] == [
        ("DEBUG", "enqueue"),
        ("DEBUG", "claim"),
        ("DEBUG", "finish"),
    ]
    claim, finish = seen[1][2], seen[2][2]
    assert (claim["attempt"], claim["style"]) == (1, "coroutine")
    assert (finish["state"], finish["reason"]) == ("completed", "finished")
    assert finish["seconds"] >= 0
    assert "hunter2" not in caplog.text
    assert "k-1" not in caplog.text


def _all(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, dict[str, Any]]]:
    records = [(record.levelname, getattr(record, FIELDS, {})) for record in caplog.records]
    return [(level, fields.get("event", ""), fields) for level, fields in records]


@pytest.mark.spec("lifecycle-17")
async def test_errors_are_told_with_their_stack_and_what_becomes_of_the_task(
    yard: Yard, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "taskyard")

    @yard.task(retry=Retry.fixed(1, delay=0.0))
    async def broken() -> None:
        raise LookupError("nothing there")

    async with working(yard):
        handle = await broken.enqueue()
        await ended(handle)

    first, last = told(caplog, handle.id)
    assert [level for level, _, _ in (first, last)] == ["WARNING", "ERROR"]
    assert [fields["state"] for _, _, fields in (first, last)] == ["pending", "failed"]
    assert first[2]["again_in"] == 0.0
    assert last[2]["error"] == "LookupError: nothing there"
    assert 'raise LookupError("nothing there")' in last[2]["stack"]
    assert last[2]["seconds"] >= 0


@pytest.mark.spec("security-10", part="logs")
async def test_an_error_that_repeats_a_secret_is_logged_without_it(
    yard: Yard, caplog: pytest.LogCaptureFixture
) -> None:
    @yard.task(retry=Retry.never())
    async def log_in(password: str, secret_number: int, *, with_token: bool) -> None:
        raise LookupError(f"{password} and {secret_number} are not known: {with_token}")

    async with working(yard):
        handle = await log_in.enqueue("hunter2", 987654, with_token=True)
        await ended(handle)

    [(_, _, fields)] = told(caplog, handle.id)
    assert fields["error"] == "LookupError: *** and *** are not known: True"
    assert "LookupError: *** and ***" in fields["stack"]
    assert "hunter2" not in caplog.text


@pytest.mark.spec("lifecycle-17")
async def test_every_way_to_leave_running_is_told(
    yard: Yard, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "taskyard")

    @yard.task()
    async def sleepy(ctx: Context) -> Snooze | None:
        return Snooze(0.0) if ctx.attempt == 1 else None

    async with working(yard):
        handle = await sleepy.enqueue()
        await handle.result(20)
    ends = [fields for _, event, fields in told(caplog, handle.id) if event == "finish"]
    assert [(end["attempt"], end["state"], end["reason"]) for end in ends] == [
        (1, "pending", "snoozed"),
        (2, "completed", "finished"),
    ]
    assert await handle.status() is State.COMPLETED


@pytest.mark.spec("lifecycle-17", "engine-22")
async def test_what_the_system_does_by_itself_is_told_task_by_task(
    yard: Yard, caplog: pytest.LogCaptureFixture
) -> None:
    @yard.task()
    async def lost() -> None: ...

    handle = await lost.options(retries=0).enqueue()
    lease = await yard.store.register(NewNode(id="dead", kinds=("lost",), slots=1))
    await yard.store.claim(ClaimRequest(lease=lease, number=1, room=1))
    report(await yard.store.rescue([lease], ended=False))
    [(level, event, fields)] = told(caplog, handle.id)
    assert (level, event) == ("ERROR", "lost with its node")
    assert (fields["state"], fields["reason"], fields["charged"]) == ("failed", "lost", True)


@pytest.mark.spec("lifecycle-17")
@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("password", True),
        ("db_password", True),
        ("dbPassword", True),
        ("TOKEN", True),
        ("accessToken", True),
        ("api_keys", True),
        ("APIKey", True),
        ("x-authorization", True),
        ("session_cookie", True),
        ("monkey", False),
        ("keyboard", False),
        ("author", False),
        ("url", False),
    ],
)
def test_secrets_are_known_by_the_words_of_their_names(name: str, secret: bool) -> None:
    assert is_secret(name) is secret


@pytest.mark.spec("lifecycle-17")
def test_secrets_are_hidden_wherever_they_are() -> None:
    payload = json.dumps(
        {"to": [{"name": "ann", "token": {"value": "t-1"}}], "dsn": "redis://:pw@host/0", "n": 1}
    )
    assert redacted(payload) == {
        "to": [{"name": "ann", "token": HIDDEN}],
        "dsn": f"redis://:{HIDDEN}@host/0",
        "n": 1,
    }


@pytest.mark.spec("lifecycle-17")
def test_more_words_can_be_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redact, "_SECRETS", set(redact._SECRETS))
    assert redacted('{"customerIban": "DE00"}') == {"customerIban": "DE00"}
    redact.hide("IBAN")
    assert redacted('{"customerIban": "DE00"}') == {"customerIban": HIDDEN}


@pytest.mark.spec("lifecycle-17")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("token=t-1 page=2", f"token={HIDDEN} page=2"),
        ("?a=1&api_key=t-1&b=2", f"?a=1&api_key={HIDDEN}&b=2"),
        ("url=https://h/?token=t-1", f"url=https://h/?token={HIDDEN}"),
        (
            "User(name='ann', password='t\\'1', age=3)",
            f"User(name='ann', password={HIDDEN}, age=3)",
        ),
        ('{"token": "t-1", "n": 1}', f'{{"token": {HIDDEN}, "n": 1}}'),
        ("{'token': 't-1'}", f"{{'token': {HIDDEN}}}"),
        (r'"{\"token\": \"t-1\", \"n\": 1}"', rf'"{{\"token\": {HIDDEN}, \"n\": 1}}"'),
        ('{"token": "cut in the mid', f'{{"token": {HIDDEN}'),
        (r'"{\"token\": \"cut in the mid', rf'"{{\"token\": {HIDDEN}'),
        (r'"{\"token\": \"a\\\"b\", \"n\": 1}"', rf'"{{\"token\": {HIDDEN}, \"n\": 1}}"'),
        ("{'token': b't 1', 'n': 1}", f"{{'token': {HIDDEN}, 'n': 1}}"),
        ('{"tokens": ["t]1", {"a": "t-2"}], "n": 1}', f'{{"tokens": {HIDDEN}, "n": 1}}'),
        ("User(password=Secret('t 1'), age=3)", f"User(password={HIDDEN}, age=3)"),
        ("tokens=['t-1', 'cut in the mid", f"tokens={HIDDEN}"),
        ("dsn redis://:pw@host/0", f"dsn redis://:{HIDDEN}@host/0"),
        ("dsn redis://:p@w@host/0", f"dsn redis://:{HIDDEN}@host/0"),
        ('["x://:pw@host","a@b"]', f'["x://:{HIDDEN}@host","a@b"]'),
        ("Authorization: Bearer abcdefgh.123", f"Authorization: Bearer {HIDDEN}"),
        ("the session: begun, monkey=1", "the session: begun, monkey=1"),
        ("token=", "token="),
        ("", ""),
    ],
)
def test_secrets_are_hidden_in_texts_where_they_are_named(text: str, shown: str) -> None:
    assert redacted_text(text) == shown


@pytest.mark.spec("lifecycle-17")
def test_secrets_are_hidden_in_one_walk_over_a_text() -> None:
    """Where each backslash could be the end, none is looked at with all that follow."""
    backslashes = "\\" * 1_000_000

    assert redacted_text(f'token=\\"{backslashes}') == f"token={HIDDEN}"


def test_what_is_long_is_cut() -> None:
    shown = redacted(json.dumps({"text": "x" * 5000, "many": list(range(1000))}))
    assert len(shown["text"]) < 300
    assert shown["text"].endswith("(5,000 characters)")
    assert shown["many"][-1] == "… 1000 in all"
    assert redacted("not json") == "(not JSON)"


def test_text_has_plain_values(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "taskyard")
    logger("test").info("timeout", style=Style.THREAD, state=State.QUEUED)
    [record] = caplog.records
    assert record.getMessage() == "event='timeout' style='thread' state='queued'"
    assert type(getattr(record, FIELDS)["style"]) is str
