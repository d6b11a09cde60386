from __future__ import annotations

import errno
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from taskyard.domain.classify import Advice, Classifier, by_type, http_status, retry_after
from taskyard.domain.errors import Fatal
from taskyard.domain.retry import Retry


class Response:
    def __init__(self, status: int, headers: dict[str, str] | None = None) -> None:
        self.status_code = status
        self.headers = headers or {}


class ByResponse(Exception):
    """As httpx and requests tell a status."""

    def __init__(self, status: int, headers: dict[str, str] | None = None) -> None:
        super().__init__(f"HTTP {status}")
        self.response = Response(status, headers)


class ByStatus(Exception):
    """As aiohttp tells it."""

    def __init__(self, status: int, headers: dict[str, str] | None = None) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status
        self.headers = headers


class ByCode(Exception):
    """As urllib tells it."""

    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP {status}")
        self.code = status


RETRIED = [
    TimeoutError(),
    ConnectionError(),
    ConnectionResetError(),
    ConnectionRefusedError(),
    BrokenPipeError(),
    ByResponse(503),
    ByResponse(429),
    ByStatus(503),
    ByCode(429),
    Retry(),
]
FATAL = [
    Fatal("no"),
    *(ByResponse(status) for status in (400, 401, 403, 404)),
    ByStatus(404),
    ByCode(403),
    OSError(errno.ENOSPC, "no space left"),
    OSError(errno.EDQUOT, "quota exceeded"),
]
UNKNOWN = [
    ValueError("?"),
    KeyError("?"),
    ByResponse(500),
    ByResponse(418),
    OSError(errno.EACCES, "?"),
]


@pytest.mark.spec("lifecycle-9")
@pytest.mark.parametrize("error", RETRIED, ids=repr)
def test_what_may_pass_is_tried_again(error: Exception) -> None:
    assert Classifier().advise(error) is Advice.RETRY


@pytest.mark.spec("lifecycle-9")
@pytest.mark.parametrize("error", FATAL, ids=repr)
def test_what_will_not_pass_is_never_tried_again(error: Exception) -> None:
    assert Classifier().advise(error) is Advice.FATAL


@pytest.mark.spec("lifecycle-9")
@pytest.mark.parametrize("error", UNKNOWN, ids=repr)
def test_what_nobody_knows_is_worth_the_retries_of_its_kind(error: Exception) -> None:
    assert Classifier().advise(error) is Advice.RETRY


@pytest.mark.spec("lifecycle-9")
def test_users_rules_are_asked_first() -> None:
    mine = Classifier().extended(by_type(Advice.FATAL, TimeoutError, ValueError))

    assert mine.advise(TimeoutError()) is Advice.FATAL
    assert mine.advise(ValueError()) is Advice.FATAL
    assert mine.advise(ConnectionError()) is Advice.RETRY
    assert mine.advise(Fatal()) is Advice.FATAL
    assert Classifier().advise(TimeoutError()) is Advice.RETRY


@pytest.mark.spec("lifecycle-9")
def test_a_later_extension_is_asked_before_an_earlier_one() -> None:
    mine = Classifier().extended(by_type(Advice.FATAL, OSError))
    mine = mine.extended(by_type(Advice.RETRY, ConnectionError))

    assert mine.advise(ConnectionError()) is Advice.RETRY
    assert mine.advise(TimeoutError()) is Advice.FATAL  # an OSError too


@pytest.mark.spec("lifecycle-9")
def test_a_status_is_found_wherever_the_client_puts_it() -> None:
    assert [http_status(e) for e in (ByResponse(404), ByStatus(503), ByCode(429))] == [
        404,
        503,
        429,
    ]


@pytest.mark.spec("lifecycle-9")
def test_what_is_no_status_is_not_taken_for_one() -> None:
    exits = SystemExit(3)
    odd = ByStatus(9999)

    assert http_status(exits) is None
    assert http_status(odd) is None
    assert http_status(ValueError()) is None


@pytest.mark.spec("lifecycle-8")
def test_retry_after_is_read_from_the_answer() -> None:
    header = {"Retry-After": "120"}

    assert retry_after(ByResponse(429, header)) == 120
    assert retry_after(ByStatus(503, header)) == 120
    assert retry_after(Retry(after=9)) == 9


@pytest.mark.spec("lifecycle-8")
@pytest.mark.parametrize("value", ["soon", "", "inf", "nan", "-5", "1e300"])
def test_a_retry_after_that_makes_no_sense_is_not_heeded(value: str) -> None:
    assert retry_after(ByResponse(429, {"Retry-After": value})) is None


@pytest.mark.spec("lifecycle-8")
def test_an_error_that_asks_for_nothing_asks_for_nothing() -> None:
    for error in (ByResponse(503), ByStatus(503), Retry(), ValueError()):
        assert retry_after(error) is None


@pytest.mark.spec("lifecycle-8")
def test_retry_after_may_be_a_date() -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=120), usegmt=True)
    past = "Wed, 21 Oct 2015 07:28:00 GMT"

    assert retry_after(ByResponse(429, {"Retry-After": soon})) == pytest.approx(120, abs=60)
    assert retry_after(ByResponse(429, {"Retry-After": past})) == 0
