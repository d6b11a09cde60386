"""What people do in the dashboard, done by a real browser against a real server."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from taskyard.server.roles import Role
from tests.browser.site import HOSTILE
from tests.browser.visit import Site, Visit, state_shown

PAGES = ("", "tasks", "lanes", "workers", "cron", "kinds", "audit")


def test_a_wrong_token_is_refused_and_a_right_one_lets_in(visit: Visit, site: Site) -> None:
    page = visit.open()
    page.get_by_label("Access token").fill("ty1_wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("not valid")
    page.get_by_label("Access token").fill(site.tokens[Role.OPERATOR])
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    expect(page.locator(".live")).to_have_text("Live")


def test_logging_out_leads_back_to_the_login_page(page: Page) -> None:
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Access token")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Access token")).to_be_visible()


def test_the_token_is_out_of_reach_of_scripts(page: Page) -> None:
    assert page.evaluate("document.cookie") == ""
    assert page.evaluate("JSON.stringify(localStorage)").find("ty1_") == -1


def test_tasks_flow_in_and_change_without_a_reload(page: Page, site: Site) -> None:
    page.get_by_role("link", name="Tasks").first.click()
    task_id = site.enqueue("download", subscription=7)
    expect(state_shown(page, task_id)).to_have_text("completed")


def test_the_charts_of_the_overview_move(page: Page, site: Site) -> None:
    site.enqueue("download", subscription=8)
    expect(page.locator(".chart canvas")).to_have_count(6)
    expect(page.locator(".tile").first).to_contain_text("/s")
    completed = page.get_by_role("link", name=re.compile("completed")).first
    before = completed.inner_text()
    site.enqueue("download", subscription=9)
    expect(completed).not_to_have_text(before)


def test_the_capacity_of_a_lane_is_changed_in_place(visit: Visit, page: Page, site: Site) -> None:
    site.enqueue("download", subscription=1)
    visit.open("lanes")
    field = page.get_by_label("Capacity of downloads", exact=True)
    field.fill("3")
    field.press("Enter")
    expect(page.get_by_role("log")).to_contain_text("Lane downloads has capacity 3")
    assert site.lane("downloads")["capacity"] == 3
    page.get_by_label("More capacity for downloads").click()
    expect(field).to_have_value("4")
    field.fill("")
    field.press("Enter")
    expect(page.get_by_role("log")).to_contain_text("no limit")
    assert site.lane("downloads")["capacity"] is None


@pytest.mark.spec("lifecycle-6", part="dashboard")
def test_a_lane_is_paused_with_a_reason_and_goes_on(visit: Visit, page: Page, site: Site) -> None:
    site.enqueue("download", subscription=1)
    visit.open("lanes")
    lane = page.locator(".lane").filter(has_text="downloads")
    lane.get_by_role("button", name="Pause").click()
    page.get_by_label("Reason").fill("the provider is down")
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(lane).to_contain_text("Paused: the provider is down")
    waiting = site.enqueue("download", subscription=2)
    visit.open(f"tasks/{waiting}")
    expect(page.locator(".waits")).to_contain_text("lane downloads is paused")
    visit.open("lanes")
    lane.get_by_role("button", name="Resume").click()
    expect(lane.get_by_role("button", name="Pause")).to_be_visible()
    visit.open(f"tasks/{waiting}")
    expect(page.locator(".task-line .badge")).to_have_text("completed")


def test_the_whole_yard_is_paused_once_that_is_confirmed(page: Page, site: Site) -> None:
    page.get_by_role("button", name="Pause yard").click()
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    assert not site.is_paused()
    page.get_by_role("button", name="Pause yard").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause the yard").click()
    expect(page.locator(".banner")).to_contain_text("The yard is paused")
    assert site.is_paused()
    page.get_by_role("button", name="Resume yard").click()
    expect(page.locator(".banner")).to_have_count(0)
    assert not site.is_paused()


def test_a_page_that_nobody_sees_holds_no_stream(visit: Visit, page: Page, site: Site) -> None:
    page.get_by_role("link", name="Tasks").first.click()
    expect(page.locator(".live")).to_have_text("Live")
    look_away = """hidden => {
        Object.defineProperty(document, "hidden", { configurable: true, value: hidden });
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    with page.expect_event("requestfailed", lambda request: request.url.endswith("/api/events")):
        page.evaluate(look_away, True)
    task_id = site.enqueue("download", subscription=1)
    page.evaluate(look_away, False)
    expect(state_shown(page, task_id)).to_have_text("completed")


def test_a_running_task_is_cancelled(visit: Visit, page: Page, site: Site) -> None:
    task_id = site.enqueue("export")
    visit.open(f"tasks/{task_id}")
    expect(page.locator(".task-line .badge")).to_have_text("running")
    expect(page.locator(".task-progress")).to_contain_text("writing pages")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the task").click()
    expect(page.locator(".task-line .badge")).to_have_text("cancelled")
    assert site.task(task_id)["state"] == "cancelled"


def test_a_failed_task_is_retried(visit: Visit, page: Page, site: Site) -> None:
    task_id = site.enqueue("mail", to="ada")
    visit.open(f"tasks/{task_id}")
    expect(page.locator(".task-line .badge")).to_have_text("failed")
    expect(page.locator(".card.error")).to_contain_text("no such mailbox: ada")
    (site.folder / "fixed").touch()
    page.get_by_role("button", name="Retry").click()
    expect(page.locator(".task-line .badge")).to_have_text("completed")
    expect(page.locator(".timeline")).to_contain_text("Attempt 1")
    expect(page.locator(".timeline")).to_contain_text("Attempt 2")
    expect(page.get_by_text("sent to ada")).to_be_visible()
    (site.folder / "fixed").unlink()


def test_all_that_match_are_retried_after_their_number_was_shown(
    visit: Visit, page: Page, site: Site
) -> None:
    failed = [site.enqueue("mail", to=f"reader {number}") for number in range(3)]
    visit.open("tasks?state=failed&kind=mail")
    for task_id in failed:
        expect(state_shown(page, task_id)).to_have_text("failed")
    (site.folder / "fixed").touch()
    page.get_by_role("button", name="Retry all").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Retry 3 tasks?")
    dialog.get_by_role("button", name="Retry 3").click()
    expect(page.get_by_role("log")).to_contain_text("3 tasks retried")
    expect(page.get_by_text("No task matches")).to_be_visible()
    (site.folder / "fixed").unlink()


def test_chosen_rows_are_acted_on_alone(visit: Visit, page: Page, site: Site) -> None:
    failed = [site.enqueue("mail", to=f"writer {number}") for number in range(2)]
    visit.open("tasks?state=failed&kind=mail")
    page.get_by_label(f"Select {failed[0]}").check()
    page.get_by_role("button", name="Retry", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text("Retry 1 task?")
    page.get_by_role("dialog").get_by_role("button", name="Retry 1").click()
    expect(page.get_by_role("log")).to_contain_text("1 task retried")
    visit.open(f"tasks/{failed[0]}")
    expect(page.locator(".timeline")).to_contain_text("Attempt 2")
    assert site.task(failed[1])["attempt"] == 1


@pytest.mark.spec("security-9")
def test_markup_in_a_payload_and_an_error_is_only_text(
    visit: Visit, page: Page, site: Site
) -> None:
    task_id = site.enqueue("publish", lane=HOSTILE, text=HOSTILE)
    visit.open(f"tasks/{task_id}")
    expect(page.locator(".card.error .message")).to_have_text(HOSTILE)
    expect(page.locator(".code pre").last).to_contain_text("<script>")
    for place in ("", "tasks", "lanes", "audit"):
        visit.open(place)
        expect(page.locator(".head")).to_be_visible()
        expect(page.locator("main script, main img")).to_have_count(0)
    visit.open("lanes")
    expect(page.get_by_role("heading", name=HOSTILE)).to_be_visible()
    assert page.evaluate("window.hurt") is None


def test_filters_are_in_the_address_and_outlive_a_reload(
    visit: Visit, page: Page, site: Site
) -> None:
    site.enqueue("download", subscription=1)
    visit.open("tasks")
    page.get_by_role("link", name=re.compile("completed", re.IGNORECASE)).click()
    page.get_by_label("Kind", exact=True).select_option("download")
    expect(page).to_have_url(re.compile(r"tasks\?state=completed&kind=download"))
    page.reload()
    expect(page.get_by_label("Kind", exact=True)).to_have_value("download")
    expect(page.get_by_role("row").filter(has_text="download").first).to_be_visible()
    page.get_by_role("link", name="Clear").click()
    expect(page).to_have_url(re.compile(r"tasks\?state=completed$"))


def test_pages_of_tasks_follow_each_other(visit: Visit, page: Page, site: Site) -> None:
    ids = [site.enqueue("download", subscription=number) for number in range(55)]
    visit.open("tasks?kind=download")
    expect(page.locator("tr[data-row]")).to_have_count(50)
    expect(page.get_by_text(ids[0])).to_have_count(0)
    page.get_by_role("button", name="Older").click()
    expect(page.get_by_text(ids[0])).to_be_visible()
    page.get_by_role("button", name="Newest").click()
    expect(page.get_by_text(ids[-1])).to_be_visible()


def test_a_task_is_enqueued_from_the_form(visit: Visit, page: Page) -> None:
    visit.open("kinds")
    row = page.get_by_role("row").filter(has_text="download")
    row.get_by_role("button", name="Enqueue").click()
    page.get_by_label("Parameters (JSON)").fill('{"subscription": 42}')
    page.get_by_role("dialog").get_by_role("button", name="Enqueue").click()
    expect(page.get_by_role("heading", name="download")).to_be_visible()
    expect(page.locator(".task-line .badge")).to_have_text("completed")


def test_parameters_that_do_not_fit_are_refused_with_the_reason(visit: Visit, page: Page) -> None:
    visit.open("kinds?enqueue=download")
    page.get_by_label("Parameters (JSON)").fill('{"subscription": "many"}')
    page.get_by_role("dialog").get_by_role("button", name="Enqueue").click()
    expect(page.locator(".notes .bad")).to_contain_text("subscription")


def test_a_cron_is_made_paused_and_deleted(visit: Visit, page: Page) -> None:
    visit.open("cron")
    page.get_by_role("button", name="New").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("nightly")
    dialog.get_by_label("Schedule").fill("0 2 * * *")
    dialog.get_by_label("Starts").select_option("download")
    dialog.get_by_label("Parameters").fill('{"subscription": 1}')
    dialog.get_by_role("button", name="Save").click()
    row = page.get_by_role("row").filter(has_text="nightly")
    expect(row).to_contain_text("0 2 * * *")
    row.get_by_label("Pause nightly").click()
    expect(row).to_contain_text("paused")
    row.get_by_label("Edit nightly").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(row).to_have_count(0)


def test_a_viewer_sees_everything_and_can_do_nothing(visit: Visit, site: Site) -> None:
    task_id = site.enqueue("mail", to="nobody")
    page = visit.log_in(Role.VIEWER)
    visit.open(f"tasks/{task_id}")
    expect(page.locator(".task-line .badge")).to_have_text("failed")
    expect(page.get_by_role("button", name="Retry")).to_have_count(0)
    visit.open("lanes")
    expect(page.locator(".lane").first).to_be_visible()
    expect(page.get_by_role("button", name="Pause")).to_have_count(0)


def test_everything_is_reached_by_keys(visit: Visit, page: Page, site: Site) -> None:
    first = site.enqueue("download", subscription=1)
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type(first)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="download")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Next or previous row")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("g")
    page.keyboard.press("t")
    expect(page.get_by_role("heading", name="Tasks")).to_be_visible()
    expect(page.locator("tr[data-row]").first).to_be_visible()
    page.keyboard.press("j")
    expect(page.locator("tr[data-row]").first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".timeline")).to_be_visible()


def test_the_theme_is_the_systems_until_it_is_chosen(browser: Browser, site: Site) -> None:
    visit = Visit(browser, site, color_scheme="dark")
    page = visit.log_in()

    def ground() -> str:
        return str(page.evaluate("getComputedStyle(document.documentElement).backgroundColor"))

    dark = ground()
    page.get_by_role("button", name="Theme: system").click()
    expect(page.get_by_role("button", name="Theme: light")).to_be_visible()
    assert ground() != dark
    page.reload()
    expect(page.get_by_role("button", name="Theme: light")).to_be_visible()
    assert ground() != dark
    visit.close()


@pytest.mark.parametrize("place", [*PAGES, "tasks?since=2026-01-01T00:00:00Z"])
def test_no_page_is_wider_than_a_phone(browser: Browser, site: Site, place: str) -> None:
    visit = Visit(browser, site, viewport={"width": 360, "height": 740})
    page = visit.log_in()
    visit.open(place)
    expect(page.locator(".head")).to_be_visible()
    expect(page.locator("[aria-busy]")).to_have_count(0)
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 360
    visit.close()


def test_inside_another_application_nothing_is_asked_of_that(
    browser: Browser, tmp_path: Path
) -> None:
    with Site(tmp_path, "/tools/yard") as site:
        task_id = site.enqueue("download", task_id="order-1.2/3", subscription=4)
        visit = Visit(browser, site)  # which notes what is asked for elsewhere
        page = visit.log_in()
        expect(page.locator(".live")).to_have_text("Live")
        visit.open("tasks/order-1.2%2F3")
        expect(page.locator(".task-line .badge")).to_have_text("completed")
        page.get_by_role("link", name="Tasks").first.click()
        expect(state_shown(page, task_id)).to_have_text("completed")
        page.reload()
        expect(state_shown(page, task_id)).to_have_text("completed")
        visit.close()


def test_a_lost_connection_is_seen_and_mended(browser: Browser, tmp_path: Path) -> None:
    with Site(tmp_path) as site:
        visit = Visit(browser, site)
        page = visit.log_in()
        expect(page.locator(".live")).to_have_text("Live")
        site.stop()
        expect(page.locator(".live")).to_have_text("Not connected")
        expect(page.get_by_role("alert")).to_contain_text("may be old")
        site.start()
        expect(page.locator(".live")).to_have_text("Live", timeout=30_000)
        page.get_by_role("link", name="Tasks").first.click()
        task_id = site.enqueue("download", subscription=3)
        expect(state_shown(page, task_id)).to_have_text("completed")
        visit.close()
