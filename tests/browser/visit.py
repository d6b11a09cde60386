"""The site as a test holds it, and a browser's visits to it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect

from taskyard.server.roles import Role


class Site:
    """The process of site.py, and its API for what a test does beside the browser."""

    def __init__(self, folder: Path, prefix: str = "", *, workers: int = 1) -> None:
        self.folder = folder
        self._workers = workers
        self._prefix = prefix
        self._port = 0
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.browser.site", str(self.folder), str(self._port)]
        command += [str(self._workers), *([self._prefix] if self._prefix else [])]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        said = json.loads(self._process.stdout.readline())
        self._port = said["port"]
        self.tokens: dict[Role, str] = said["tokens"]
        self.url = f"http://127.0.0.1:{self._port}{self._prefix}"
        self._api = httpx.Client(
            base_url=f"{self.url}/api/",
            headers={"Authorization": f"Bearer {self.tokens[Role.ADMIN]}"},
        )

    def stop(self) -> None:
        self._api.close()
        with self._process:  # closes its stdin, which ends it
            pass

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        stack: TracebackType | None,
    ) -> None:
        self.stop()

    def enqueue(
        self,
        task_kind: str,
        *,
        lane: str | None = None,
        task_id: str | None = None,
        keys: Sequence[str] = (),
        **params: Any,
    ) -> str:
        said = {"lane": lane, "id": task_id, "keys": keys or None}
        task = {"kind": task_kind, "params": params}
        task |= {name: value for name, value in said.items() if value is not None}
        answer = self._api.post("tasks", json=task)
        answer.raise_for_status()
        return str(answer.json()["id"])

    def act(self, method: str, path: str, body: dict[str, Any] | None = None) -> None:
        self._api.request(method, path, json=body).raise_for_status()

    def task(self, task_id: str) -> dict[str, Any]:
        return self._got(f"tasks/{task_id}")

    def lane(self, name: str) -> dict[str, Any]:
        return self._got(f"lanes/{name}")

    def is_paused(self) -> bool:
        return bool(self._got("yard")["paused"])

    def _got(self, path: str) -> dict[str, Any]:
        answer = self._api.get(path)
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found


class Visit:
    """One who has the dashboard open. What a strict page never does is noted and checked."""

    def __init__(self, browser: Browser, site: Site, **look: Any) -> None:
        self.site = site
        self.context = browser.new_context(**look)
        self.page = self.context.new_page()
        self.outside: list[str] = []
        self.refused_by_policy: list[str] = []
        self.complaints: list[str] = []  # of the browser, whatever they are about
        self.errors: list[str] = []
        self.page.on("request", self._requested)
        self.page.on("console", self._told)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def _requested(self, request: Request) -> None:
        if not request.url.startswith((f"{self.site.url}/", "data:")):
            self.outside.append(request.url)

    def _told(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)
        if "Content Security Policy" in message.text:
            self.refused_by_policy.append(message.text)

    def open(self, place: str = "") -> Page:
        self.page.goto(f"{self.site.url}/dashboard/{place}")
        return self.page

    def log_in(self, role: Role = Role.OPERATOR) -> Page:
        self.open()
        self.page.get_by_label("Access token").fill(self.site.tokens[role])
        self.page.get_by_role("button", name="Log in").click()
        expect(self.page.get_by_role("heading", name="Overview")).to_be_visible()
        return self.page

    def close(self) -> None:
        self.context.close()
        assert self.outside == []
        assert self.refused_by_policy == []
        assert self.errors == []


def state_shown(page: Page, task_id: str) -> Any:
    """The badge of a task in the table."""
    return page.get_by_role("row").filter(has_text=task_id).locator(".badge")
