"""What a redis URL may say, and what never shows in a message."""

from __future__ import annotations

import subprocess
import sys

import pytest

from taskyard.domain.errors import ConfigurationError
from taskyard.store.redis.address import Address, Secret, parse
from taskyard.store.url import open_store


@pytest.mark.spec("engine-27")
@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://there", Address(hosts=(("there", 6379),))),
        ("redis://there:7000/3", Address(hosts=(("there", 7000),), database=3)),
        ("redis://[::1]:7000", Address(hosts=(("::1", 7000),))),
        ("rediss://there", Address(hosts=(("there", 6379),), tls=True)),
        ("redis://:p%40ss@there", Address(hosts=(("there", 6379),), password=Secret("p@ss"))),
        (
            "redis://ann:pw@there?namespace=mine&force=1",
            Address(
                hosts=(("there", 6379),),
                user="ann",
                password=Secret("pw"),
                namespace="mine",
                force=True,
            ),
        ),
        ("redis://there?timeout=2.5", Address(hosts=(("there", 6379),), timeout=2.5)),
        ("redis+cluster://a:1/0", Address(hosts=(("a", 1),), cluster=True)),
        ("redis+cluster://a:1,b:2", Address(hosts=(("a", 1), ("b", 2)), cluster=True)),
    ],
)
def test_a_url_names_server_database_and_namespace(url: str, address: Address) -> None:
    assert parse(url) == address


@pytest.mark.spec("engine-27")
@pytest.mark.parametrize(
    "url",
    [
        "redis://",
        "redis://there:port",
        "redis://there/notes",
        "redis://there?namespace=my-yard",
        "redis://there?nonsense=1",
        "redis://there?timeout=soon",
        "redis://there?timeout=0",
    ],
)
def test_a_wrong_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError):
        open_store(url)


@pytest.mark.spec("engine-27")
@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("redis://a:1,b:2", r"redis\+cluster://a:1,b:2"),
        ("rediss://pw@a:1,b:2/3", r"as rediss\+cluster://a:1,b:2$"),
        ("redis+cluster://a:1/3", "no database 3"),
        ("redis://a:²", "a port is a number"),
        ("redis://a:" + "9" * 5000, "a port is a number"),
        ("redis://[::1", "IPv6"),
        ("redis://a/²", "no number of a Redis database"),
    ],
)
def test_what_would_be_ignored_is_refused(url: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        open_store(url)


@pytest.mark.spec("security-10")
def test_a_password_is_never_shown() -> None:
    address = parse("redis://ann:hidden@there/2")

    assert "hidden" not in f"{address} {address!r}"
    assert str(address) == "redis://there:6379/2"
    with pytest.raises(ConfigurationError) as caught:
        parse("redis://ann:hidden@there/2?what=1")
    assert "hidden" not in str(caught.value)


WITHOUT_DRIVER = """
import sys
sys.modules["redis"] = None
from taskyard.domain.errors import ConfigurationError
from taskyard.store.url import open_store
open_store("sqlite://:memory:")
try:
    open_store("redis://there")
except ConfigurationError as error:
    print(error)
"""


@pytest.mark.spec("engine-27")
def test_without_the_driver_the_message_says_what_to_install() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_DRIVER], capture_output=True, text=True, check=True
    )

    assert "pip install 'taskyard[redis]'" in done.stdout
