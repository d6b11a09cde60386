"""Tasks chosen by the time of their creation."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from playwright.sync_api import Page, expect

from tests.browser.visit import Site, Visit, state_shown


def created_at(site: Site, task_id: str) -> datetime:
    return datetime.fromisoformat(site.task(task_id)["created_at"])


def in_address(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def test_the_last_minutes_are_chosen_and_stay_in_the_address(
    visit: Visit, page: Page, site: Site
) -> None:
    task_id = site.enqueue("download", subscription=1)
    visit.open("tasks")
    page.get_by_label("Created", exact=True).select_option("Last 15 minutes")
    expect(page).to_have_url(re.compile(r"tasks\?within=15m$"))
    expect(state_shown(page, task_id)).to_have_text("completed")
    page.reload()
    expect(page.get_by_label("Created", exact=True)).to_have_value("15m")
    later = site.enqueue("download", subscription=2)
    expect(state_shown(page, later)).to_have_text("completed")
    page.get_by_role("link", name="Clear").click()
    expect(page).to_have_url(re.compile(r"tasks$"))


def test_pages_follow_each_other_within_the_last_minutes(
    visit: Visit, page: Page, site: Site
) -> None:
    first, *_ = [site.enqueue("scan", subscription=1) for _ in range(51)]
    visit.open("tasks?kind=scan&within=15m")
    expect(page.locator("tr[data-row]")).to_have_count(50)
    page.get_by_role("button", name="Older").click()
    expect(page.get_by_text(first)).to_be_visible()
    expect(page).to_have_url(re.compile("within=15m&cursor="))


def test_two_moments_bound_what_is_shown(visit: Visit, page: Page, site: Site) -> None:
    first, second, third = (site.enqueue("scan", subscription=1) for _ in range(3))
    since, until = created_at(site, second), created_at(site, third)
    assert created_at(site, first) < since < until
    visit.open(f"tasks?since={in_address(since)}&until={in_address(until)}")
    expect(page.get_by_text(second)).to_be_visible()
    expect(page.get_by_text(first)).to_have_count(0)


def test_moments_are_set_in_fields(visit: Visit, page: Page, site: Site) -> None:
    task_id = site.enqueue("scan", subscription=1)
    visit.open("tasks?within=1h")
    page.get_by_label("Created", exact=True).select_option("From … to …")
    expect(page).to_have_url(re.compile(r"tasks\?since=[^&]+$"))
    expect(page.get_by_text(task_id)).to_be_visible()
    yesterday = datetime.now() - timedelta(days=1)  # noqa: DTZ005 # as the person's clock shows it
    page.get_by_label("Created from").fill(
        (yesterday - timedelta(hours=1)).isoformat("T", "seconds")
    )
    page.get_by_label("Created to").fill(yesterday.isoformat("T", "seconds"))
    page.get_by_label("Created to").blur()
    expect(page.get_by_text("No task matches")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Created to")).to_have_value(yesterday.isoformat("T", "seconds"))
    expect(page.get_by_text("No task matches")).to_be_visible()


def test_acting_on_all_heeds_the_time(visit: Visit, page: Page, site: Site) -> None:
    failed = [site.enqueue("mail", to=f"reader {number}") for number in range(3)]
    since = created_at(site, failed[1])
    visit.open(f"tasks?state=failed&kind=mail&since={in_address(since)}")
    for task_id in failed[1:]:
        expect(state_shown(page, task_id)).to_have_text("failed")
    page.get_by_role("button", name="Retry all").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Retry 2 tasks?")
    expect(dialog).to_contain_text("created from")
    dialog.get_by_role("button", name="Retry 2").click()
    expect(page.get_by_role("log")).to_contain_text("2 tasks retried")
    for task_id in failed[1:]:
        visit.open(f"tasks/{task_id}")
        expect(page.locator(".timeline")).to_contain_text("Attempt 2")
    assert site.task(failed[0])["attempt"] == 1
