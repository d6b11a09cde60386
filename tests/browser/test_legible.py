"""Every page can be read: contrast as WCAG AA asks for, in light and dark, and nothing that the
policy of the page has refused."""

from __future__ import annotations

from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from taskyard.server.roles import Role
from tests.browser.visit import Site, Visit

PAGES = ("", "tasks", "lanes", "workers", "cron", "kinds", "audit")

TOO_FAINT = """
() => {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = color;
    pen.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) =>
    [0, 1, 2].map((at) => top[at] * top[3] + below[at] * (1 - top[3])).concat(1);
  const lineage = (element) => {
    const all = [];
    for (let at = element; at; at = at.parentElement) all.unshift(at);
    return all;
  };
  const ground = (element) =>
    lineage(element).reduce(
      (below, one) => over(rgba(getComputedStyle(one).backgroundColor), below),
      [255, 255, 255, 1],
    );
  const opacity = (element) =>
    lineage(element).reduce((all, one) => all * getComputedStyle(one).opacity, 1);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const contrast = (a, b) => {
    const [high, low] = [light(a), light(b)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  };
  const found = [];
  const check = (element, text, style) => {
    const below = ground(element);
    const color = rgba(style.color);
    color[3] *= opacity(element);
    const size = parseFloat(style.fontSize);
    const needed = size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
    const is = contrast(over(color, below), below);
    if (is < needed)
      found.push(`${is.toFixed(2)} ${element.tagName}.${element.className}: ${text.slice(0, 40)}`);
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    const text = texts.currentNode.data.trim();
    if (!text || element.closest("option, :disabled") || !element.getClientRects().length) continue;
    check(element, text, getComputedStyle(element));
  }
  for (const field of document.querySelectorAll("[placeholder]"))
    check(field, field.placeholder, getComputedStyle(field, "::placeholder"));
  return found;
}
"""


def settled(page: Page) -> None:
    expect(page.locator(".head")).to_be_visible()
    expect(page.locator(".live")).to_have_text("Live")
    expect(page.locator("[aria-busy]")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_text_is_too_faint(
    browser: Browser, site: Site, scheme: Literal["light", "dark"]
) -> None:
    failed = site.enqueue("publish", text="503 Service Unavailable")
    site.act("POST", "lanes/thumbnails/pause", {"reason": "the disk is being changed"})
    waiting = site.enqueue("download", lane="thumbnails", subscription=1, keys=["sub:1"])
    for action in ("pause", "cancel"):
        task_id = site.enqueue("download", lane="thumbnails", subscription=2)
        site.act("POST", f"tasks/{task_id}/{action}")
    running = site.enqueue("export")
    visit = Visit(browser, site, color_scheme=scheme, reduced_motion="reduce")
    page = visit.open()
    expect(page.get_by_label("Access token")).to_be_visible()
    faint = {"login": page.evaluate(TOO_FAINT)}
    visit.log_in(Role.ADMIN)
    for place in (*PAGES, f"tasks/{failed}", f"tasks/{waiting}", f"tasks/{running}"):
        visit.open(place)
        settled(page)
        if place.endswith((failed, running)):
            expect(page.locator(".logs .line").first).to_be_visible()
        faint[place] = page.evaluate(TOO_FAINT)
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    faint["dialog"] = page.evaluate(TOO_FAINT)
    told = [f"{place or 'overview'}: {text}" for place, texts in faint.items() for text in texts]
    assert not told, "\n".join(told)
    visit.close()
    site.act("POST", f"tasks/{running}/cancel")


@pytest.mark.spec("security-9")
def test_no_page_does_what_its_policy_forbids(visit: Visit, page: Page, site: Site) -> None:
    failed = site.enqueue("publish", text="503 Service Unavailable")
    visit.complaints.clear()  # the first look, before the login, was refused with 401
    for place in (*PAGES, f"tasks/{failed}"):
        visit.open(place)
        settled(page)
    assert visit.complaints == []


@pytest.mark.spec("security-9")
def test_the_policy_stops_a_script_that_got_in(visit: Visit, page: Page) -> None:
    page.evaluate("document.body.setAttribute('onclick', 'window.hurt = 1')")
    page.locator("h1").click()
    page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.hurt = 1";
            document.body.append(script);
        }"""
    )
    assert page.evaluate("window.hurt") is None
    assert len(visit.refused_by_policy) == 2
    visit.refused_by_policy.clear()
