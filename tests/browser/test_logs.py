"""What bodies say, seen in the dashboard while they say it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.site import HOSTILE
from tests.browser.visit import Site, Visit

ESCAPES = r"red \x1b[31m and \u202e back"
_numbers = itertools.count()


class Speech:
    """A running task that says what it is told to."""

    def __init__(self, site: Site) -> None:
        name = f"speech-{next(_numbers)}.txt"
        self._written = site.folder / name
        self.id = site.enqueue("transcribe", speech=name)

    def say(self, *lines: str) -> None:
        with self._written.open("a") as page:
            page.write("".join(f"{line}\n" for line in lines))

    def end(self) -> None:
        self.say("end")


@pytest.fixture
def speech(site: Site) -> Iterator[Speech]:
    speech = Speech(site)
    yield speech
    speech.end()


def lines_of(page: Page) -> Locator:
    return page.locator(".logs .line")


def test_lines_come_while_the_body_says_them(visit: Visit, page: Page, speech: Speech) -> None:
    visit.open(f"tasks/{speech.id}")
    card = page.locator(".logs")
    expect(card).to_contain_text("Nothing yet")
    speech.say("info first", "warning second")
    expect(lines_of(page)).to_have_count(2)
    expect(lines_of(page).nth(1).locator("b")).to_have_text("warning")
    expect(lines_of(page).nth(1).locator("time")).to_have_text(
        re.compile(r"^\d\d:\d\d:\d\d\.\d{3}$")
    )
    expect(card.get_by_role("heading", name="Attempt 1")).to_contain_text("worker-1")
    speech.say("error third")
    expect(lines_of(page).nth(2)).to_contain_text("third")
    expect(card).to_contain_text("live")
    speech.end()
    expect(page.locator(".task-line .badge")).to_have_text("completed")
    expect(card).not_to_contain_text("live")
    expect(lines_of(page)).to_have_count(3)


def test_each_attempt_has_its_heading_and_a_retry_is_heard_again(
    visit: Visit, page: Page, site: Site
) -> None:
    task_id = site.enqueue("publish", text="503 Service Unavailable")
    visit.open(f"tasks/{task_id}")
    expect(page.locator(".task-line .badge")).to_have_text("failed")
    headings = page.locator(".logs h3")
    expect(headings).to_have_text([re.compile("Attempt 1"), re.compile("Attempt 2")])
    expect(lines_of(page)).to_have_count(6)
    page.get_by_role("button", name="Retry").click()
    expect(headings).to_have_count(4)
    expect(lines_of(page)).to_have_count(12)


def test_who_has_said_nothing_has_no_card(visit: Visit, page: Page, site: Site) -> None:
    task_id = site.enqueue("download", subscription=1)
    with page.expect_response(re.compile("/logs/stream")):
        visit.open(f"tasks/{task_id}")
    expect(page.locator(".task-line .badge")).to_have_text("completed")
    expect(page.locator(".logs")).to_have_count(0)


@pytest.mark.spec("security-9")
def test_markup_and_escapes_in_a_line_are_only_text(
    visit: Visit, page: Page, speech: Speech
) -> None:
    speech.say(f"error {HOSTILE}", f"info {ESCAPES}", r"info one\r\ntwo")
    visit.open(f"tasks/{speech.id}")
    expect(lines_of(page)).to_have_count(3)
    expect(lines_of(page).nth(0).locator("span")).to_have_text(HOSTILE)
    expect(lines_of(page).nth(1).locator("span")).to_have_text(ESCAPES)
    assert lines_of(page).nth(2).locator("span").inner_text() == "one\ntwo"
    expect(page.locator("main script, main img")).to_have_count(0)
    assert page.evaluate("window.hurt") is None


def test_lines_are_found_by_text_and_level(visit: Visit, page: Page, speech: Speech) -> None:
    speech.say("debug a detail", "info Begun", "warning slow", "error gone", "critical all gone")
    visit.open(f"tasks/{speech.id}")
    expect(lines_of(page)).to_have_count(5)
    page.get_by_label("Filter lines").fill("GONE")
    expect(lines_of(page)).to_have_count(2)
    expect(page.locator(".logs")).to_contain_text("2 of 5 lines")
    page.get_by_label("Filter lines").fill("")
    page.get_by_label("Level").select_option("Warnings and above")
    expect(lines_of(page)).to_have_count(3)
    speech.say("info not seen", "error seen")
    expect(lines_of(page).last).to_contain_text("seen")
    expect(lines_of(page)).to_have_count(4)
    page.get_by_label("Filter lines").fill("there is no such line")
    expect(page.locator(".logs")).to_contain_text("No line matches")


def test_the_end_is_followed_until_somebody_scrolls_up(
    visit: Visit, page: Page, speech: Speech
) -> None:
    page.set_viewport_size({"width": 1280, "height": 1100})
    speech.say(*(f"info line {number}" for number in range(100)))
    visit.open(f"tasks/{speech.id}")
    expect(lines_of(page)).to_have_count(100)
    expect(lines_of(page).last).to_be_in_viewport()
    follow = page.get_by_role("switch", name="Follow")
    expect(follow).to_be_checked()
    box = page.get_by_role("region", name="Lines")
    box.hover()
    page.mouse.wheel(0, -400)
    expect(follow).not_to_be_checked()
    speech.say("info one more")
    expect(lines_of(page)).to_have_count(101)
    expect(lines_of(page).last).not_to_be_in_viewport()
    follow.check()
    expect(lines_of(page).last).to_be_in_viewport()
    box.hover()
    page.mouse.wheel(0, -400)
    expect(follow).not_to_be_checked()
    page.mouse.wheel(0, 4000)
    expect(follow).to_be_checked()


def test_dropped_lines_are_told_and_the_page_keeps_only_the_last(
    visit: Visit, page: Page, site: Site
) -> None:
    task_id = site.enqueue("index", words=1200)  # of each attempt a thousand are kept
    visit.open(f"tasks/{task_id}")
    expect(page.locator(".task-line .badge")).to_have_text("completed")
    expect(lines_of(page)).to_have_count(2000)
    expect(lines_of(page).last).to_contain_text("word 1200")
    gaps = page.locator(".log-gap")
    expect(gaps.first).to_contain_text("1,000 earlier lines not shown")
    expect(gaps.nth(1)).to_have_text("200 lines dropped")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download all lines").click()
    text = Path(download.value.path()).read_text()
    assert download.value.suggested_filename == f"{task_id}.log"
    assert text.count("  info  ") == 3000
    assert text.count("(200 lines dropped)") == 3
    assert [line for line in text.splitlines() if line.startswith("attempt")] == [
        "attempt 1",
        "attempt 2",
        "attempt 3",
    ]


def test_what_is_shown_is_copied_as_text(browser: Browser, site: Site, speech: Speech) -> None:
    visit = Visit(browser, site, permissions=["clipboard-read", "clipboard-write"])
    page = visit.log_in()
    speech.say(f"info {ESCAPES}", r"error a stack:\n  in line 3", "info not wanted")
    visit.open(f"tasks/{speech.id}")
    expect(lines_of(page)).to_have_count(3)
    page.get_by_label("Filter lines").fill("a")
    expect(lines_of(page)).to_have_count(3)
    page.get_by_label("Filter lines").fill("ck")
    expect(lines_of(page)).to_have_count(2)
    page.get_by_role("button", name="Copy the lines shown").click()
    head, first, second, third = page.evaluate("navigator.clipboard.readText()").splitlines()
    assert head == "attempt 1"
    assert re.fullmatch(rf"\S+Z  info      {re.escape(ESCAPES)}", first)
    assert re.fullmatch(r"\S+Z  error     a stack:", second)
    assert third == "      in line 3"
    visit.close()


def test_a_stream_that_broke_goes_on_without_loss_or_repetition(
    browser: Browser, tmp_path: Path
) -> None:
    with Site(tmp_path) as site:
        speech = Speech(site)
        speech.say("info before")
        visit = Visit(browser, site)
        page = visit.log_in()
        visit.open(f"tasks/{speech.id}")
        expect(lines_of(page)).to_have_count(1)
        site.stop()
        expect(page.locator(".live")).to_have_text("Not connected")
        site.start()  # whose worker begins the task anew
        speech.say("info after")
        said = [re.compile(f"{text}$") for text in ("before", "before", "after")]
        expect(lines_of(page)).to_have_text(said, timeout=30_000)
        expect(page.locator(".logs h3")).to_have_count(2)
        speech.end()
        expect(page.locator(".task-line .badge")).to_have_text("completed")
        expect(lines_of(page)).to_have_text(said)
        visit.close()
