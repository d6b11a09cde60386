"""Pictures of every page, light and dark, for docs/screens: `make screens`."""

from __future__ import annotations

import contextlib
import random
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Error, Route, expect, sync_playwright

from taskyard.server.roles import Role
from tests.browser.conftest import CHROMIUM, FLAGS
from tests.browser.visit import Site, Visit

ROOT = Path(__file__).resolve().parents[2]
SCREENS = ROOT / "docs" / "screens"
WIDE = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}
BUSY_SECONDS = 60.0
PAGES = {
    "overview": "",
    "tasks": "tasks",
    "lanes": "lanes",
    "workers": "workers",
    "cron": "cron",
    "kinds": "kinds",
    "audit": "audit",
}


def main() -> None:
    SCREENS.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        Site(Path(folder)) as site,
        sync_playwright() as playwright,
    ):
        running = keep_busy(site)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        tasks = {
            "task-failed": site.enqueue("hostile", text="503 Service Unavailable"),
            "task-running": running,
        }
        places = PAGES | {name: f"tasks/{task_id}" for name, task_id in tasks.items()}
        for scheme, size, suffix in (
            ("light", WIDE, "light"),
            ("dark", WIDE, "dark"),
            ("light", PHONE, "phone"),
        ):
            visit = Visit(browser, site, viewport=size, color_scheme=scheme)
            with contextlib.closing(visit):
                take_pictures(visit, places, suffix)
        browser.close()


def keep_busy(site: Site) -> str:
    """What a small media service does in a minute; the id of a task that runs."""
    site.act("PATCH", "lanes/downloads", {"capacity": 4})
    site.act("PATCH", "lanes/exports", {"capacity": 2})
    site.act("POST", "lanes/thumbnails/pause", {"reason": "the disk is being changed", "for": 3600})
    site.act("PUT", "crons/nightly", {"schedule": "0 2 * * *", "kind": "download",
                                      "params": {"subscription": 1}})  # fmt: skip
    site.act("PUT", "crons/every-hour", {"schedule": "0 * * * *", "kind": "mail",
                                         "params": {"to": "ada"}})  # fmt: skip
    first, *_ = [site.enqueue("export") for _ in range(4)]
    for number in range(6):
        site.enqueue("download", lane="thumbnails", subscription=number)
    until = time.monotonic() + BUSY_SECONDS
    while time.monotonic() < until:
        for _ in range(random.randint(1, 8)):
            site.enqueue("download", subscription=random.randint(1, 60))
        if random.random() < 0.15:
            site.enqueue("mail", to=f"reader-{random.randint(1, 99)}")
        time.sleep(0.2)
    return first


def take_pictures(visit: Visit, places: dict[str, str], suffix: str) -> None:
    visit.context.route("**/api/tasks/*", _as_if_installed)
    page = visit.open()
    expect(page.get_by_label("Access token")).to_be_visible()
    page.screenshot(path=SCREENS / f"login-{suffix}.png")
    visit.log_in(Role.ADMIN)
    for name, place in places.items():
        visit.open(place)
        expect(page.locator(".live")).to_have_text("Live")
        expect(page.locator("[aria-busy]")).to_have_count(0)
        page.wait_for_timeout(700)  # for the meters to come to rest
        page.screenshot(path=SCREENS / f"{name}-{suffix}.png")


def _as_if_installed(route: Route) -> None:
    """Where the source lies on this machine does not belong in a picture."""
    with contextlib.suppress(Error):  # the page has gone on meanwhile
        answer = route.fetch()
        route.fulfill(response=answer, body=answer.text().replace(str(ROOT), "/srv/taskyard"))


if __name__ == "__main__":
    main()
