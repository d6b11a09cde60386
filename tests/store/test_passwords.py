"""No password in a URL shows, however the URL is wrong."""

from __future__ import annotations

import re
import traceback

import pytest

from taskyard.cli.target import Where
from taskyard.domain.errors import ConfigurationError
from taskyard.settings import Setting, Settings, load
from taskyard.store.passwords import text_without_secrets, without_secrets
from taskyard.store.postgres.options import read_options
from taskyard.store.url import open_store

WRONG = [
    f"{scheme}://ann:{url}"
    for scheme in ("postgresql", "postgres", "redis", "rediss", "redis+cluster")
    for url in (
        "pa/hidden@there/1",
        "12/hidden@there/1",
        "pa?hidden@there/1",
        "12?hidden=1@there/1",
        "12?timeout=hidden@there",
        "pa#hidden@there/1",
        "12#hidden@there/1",
        "hidden@there:port/1",
        "hidden@there/1?nonsense=1",
        "hidden",
        "hidden/1",
        "[hidden]@there/1",
        "hidden[@there/1",
        "hidden\N{CARE OF}@there/1",
    )
] + [
    "ann:hidden@there/1",
    "//ann:hidden@there/1",
    "postgres//ann:hidden@there/1",
    "mysql://ann:hidden@there/1",
    "sqlite://ann:hidden@there/1",
    "sqlite://ann:hidden@there/1?what=1",
    "postgresql://there/1?listen=ann:hidden@there",
    "postgresql://there/1?listen=ann:hidden@there&migrate=2",
    "postgresql://there/1?nonsense=1&password=hidden",
    "postgresql://there/1?timeout=soon&sslpassword=hidden",
]


@pytest.mark.spec("security-10")
@pytest.mark.parametrize("url", WRONG)
def test_a_wrong_url_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_store(url)

    assert "hidden" not in "".join(traceback.format_exception(caught.value))
    assert re.search(r"\bpa\b", str(caught.value)) is None
    assert "hidden" not in without_secrets(url)
    assert "hidden" not in repr(Where(url, None))


@pytest.mark.spec("security-10")
def test_what_to_do_about_a_password_that_is_not_encoded_is_said() -> None:
    for url in ("postgresql://u:pa/ss@there/db", "redis://u:123/ss@there/0"):
        with pytest.raises(ConfigurationError, match=r"as %2F %3F %23 or %40"):
            open_store(url)


def test_an_at_sign_may_stand_in_an_option_of_postgresql() -> None:
    assert "user=ann%40there" in read_options("postgresql://there/db?user=ann@there").dsn


@pytest.mark.spec("security-10")
def test_who_shows_settings_shows_no_password() -> None:
    url = "postgresql://ann:hidden@there/db?listen=elsewhere&password=hidden"
    options, loaded = read_options(url), load({"url": ("--url", url)}, environ={})

    assert options.listen_dsn is not None
    assert "hidden" in options.dsn
    assert "hidden" not in f"{options} {options!r} {loaded!r} {Settings(url=url)}"
    assert repr(Setting("url", url, "--url")) == (
        "Setting('url', 'postgresql://there/db?listen=elsewhere&password=…', '--url')"
    )
    with pytest.raises(ConfigurationError) as caught:
        load({"url": ("a file", [url])}, environ={})
    assert "hidden" not in str(caught.value)


@pytest.mark.spec("security-10")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no postgresql://ann:h/id@den@there/db here", "no postgresql://ann:…@there/db here"),
        ("(redis://:hidden@there)", "(redis://:…@there)"),
        ("'postgres://there?sslpassword=hidden&x=1'", "'postgres://there?sslpassword=…&x=1'"),
        ("postgresql://ann@there/db", "postgresql://ann@there/db"),
        ("sqlite:////home/a:b@c/yard.db", "sqlite:////home/a:b@c/yard.db"),
        ("sqlite://:memory:", "sqlite://:memory:"),
    ],
)
def test_a_message_that_quotes_a_url_is_told_without_its_password(text: str, shown: str) -> None:
    assert text_without_secrets(text) == shown
