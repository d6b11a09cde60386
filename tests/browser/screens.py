"""Pictures of every page, light and dark, for docs/screens: `make screens`."""

from __future__ import annotations

import contextlib
import random
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from PIL import Image
from playwright.sync_api import Error, Page, Route, expect, sync_playwright

from taskyard.server.roles import Role
from tests.browser.conftest import CHROMIUM, FLAGS
from tests.browser.visit import Site, Visit

ROOT = Path(__file__).resolve().parents[2]
SCREENS = ROOT / "docs" / "screens"
WIDE = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}
BUSY_SECONDS = 90.0
COLORS = 256
EXACT = 192
READERS = ["subscriber ada", "subscriber grace", "subscriber lin", "nobody"]
PAGES = {
    "overview": "",
    "tasks": "tasks",
    "tasks-failed": "tasks?state=failed&within=1h",
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
        Site(Path(folder), workers=3) as site,
        sync_playwright() as playwright,
    ):
        places = PAGES | {name: f"tasks/{task_id}" for name, task_id in prepared(site).items()}
        with busy(site):
            time.sleep(BUSY_SECONDS)
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            for scheme, size, suffix in (
                ("light", WIDE, "light"),
                ("dark", WIDE, "dark"),
                ("light", PHONE, "phone"),
            ):
                visit = Visit(browser, site, viewport=size, color_scheme=scheme)
                with contextlib.closing(visit):
                    take_pictures(visit, places, suffix)
            browser.close()


def prepared(site: Site) -> dict[str, str]:
    """The yard of a small media service; the tasks that have pictures of their own."""
    site.act("PATCH", "lanes/downloads", {"capacity": 6})
    site.act("PATCH", "lanes/exports", {"capacity": 2})
    site.act("PATCH", "lanes/scans", {"capacity": 2, "rate": {"starts": 10, "seconds": 1}})
    site.act("POST", "lanes/thumbnails/pause", {"reason": "the disk is being changed", "for": 3600})
    site.act("PUT", "keys/rules/disk:write", {"limit": 2})
    for name, schedule, kind, params in (
        ("nightly", "0 2 * * *", "download", {"subscription": 1}),
        ("every-hour", "0 * * * *", "scan", {"subscription": 2}),
        ("weekly-letter", "30 7 * * 1", "mail", {"to": "readers"}),
    ):
        site.act("PUT", f"crons/{name}", {"schedule": schedule, "kind": kind, "params": params})
    exports = [site.enqueue("export") for _ in range(5)]
    waiting = [
        site.enqueue("download", lane="thumbnails", subscription=number, keys=[f"sub:{number}"])
        for number in range(6)
    ]
    site.act("POST", f"tasks/{exports.pop()}/cancel")
    site.act("POST", f"tasks/{waiting[-1]}/prioritize", {"priority": 2})
    return {
        "task-failed": site.enqueue("publish", text="503 Service Unavailable"),
        "task-running": exports[0],
        "task-waiting": waiting[0],
    }


@contextlib.contextmanager
def busy(site: Site) -> Iterator[None]:
    """Tasks keep coming."""
    over = threading.Event()

    def go_on() -> None:
        while not over.wait(0.2):
            for _ in range(random.randint(2, 8)):
                number = random.randint(1, 60)
                site.enqueue("download", subscription=number, keys=[f"sub:{number}"])
            site.enqueue("scan", subscription=random.randint(1, 60))
            if random.random() < 0.3:
                site.enqueue("mail", to=random.choice(READERS))

    coming = threading.Thread(target=go_on)
    coming.start()
    try:
        yield
    finally:
        over.set()
        coming.join()


def take_pictures(visit: Visit, places: dict[str, str], suffix: str) -> None:
    visit.context.route("**/api/tasks/*", _as_if_installed)
    page = visit.open()
    expect(page.get_by_label("Access token")).to_be_visible()
    keep(page, f"login-{suffix}")
    visit.log_in(Role.ADMIN)
    for name, place in places.items():
        visit.open(place)
        expect(page.locator(".live")).to_have_text("Live")
        expect(page.locator("[aria-busy]")).to_have_count(0)
        page.wait_for_timeout(700)  # for the meters to come to rest
        keep(page, f"{name}-{suffix}")


def keep(page: Page, name: str) -> None:
    path = SCREENS / f"{name}.png"
    page.screenshot(path=path)
    with Image.open(path) as taken:
        few = with_few_colors(taken.convert("RGB"))
    few.save(path, optimize=True)


def with_few_colors(full: Image.Image) -> Image.Image:
    """As many as a byte can name, which is a third of the file: those that are seen most as they
    are, the others close to it."""
    counted = sorted(full.getcolors(full.width * full.height) or (), reverse=True)
    there = [color for _, color in counted if isinstance(color, tuple)]
    rest = full.quantize(COLORS - EXACT, method=Image.Quantize.MAXCOVERAGE).getpalette() or []
    others = list(zip(rest[::3], rest[1::3], rest[2::3], strict=True))
    palette = [*there[:EXACT], *others][:COLORS]

    def nearest(color: Sequence[int]) -> int:
        gaps = [sum((a - b) ** 2 for a, b in zip(color, one, strict=True)) for one in palette]
        return gaps.index(min(gaps))

    place: dict[object, int] = {
        color: at if at < EXACT else nearest(color) for at, color in enumerate(there)
    }
    few = Image.frombytes(
        "P", full.size, bytes(place[color] for color in full.get_flattened_data())
    )
    few.putpalette([part for color in palette for part in color])
    return few


def _as_if_installed(route: Route) -> None:
    """Where the source lies on this machine does not belong in a picture."""
    with contextlib.suppress(Error):  # the page has gone on meanwhile
        answer = route.fetch()
        body = answer.text().replace(f"{ROOT}/tests/browser/site.py", "/srv/media/app.py")
        route.fulfill(response=answer, body=body.replace(f"{ROOT}/src", "/srv/media/lib"))


if __name__ == "__main__":
    main()
