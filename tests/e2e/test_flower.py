"""Flower over a running pool, in a real browser: what a person sees, and what nobody may do.

Screenshots go to `.artifacts/flower`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import urllib3
from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from devcluster.kubeconfig import write_kubeconfig
from devcluster.server import Server
from eno.objects import Composition
from runtime.dispatch import Dispatcher
from runtime.messages import RecoverMessage
from runtime.settings import Settings
from tests.support.factories import NAMESPACE, SYNTHESIZER, entry, manifest, synthesis
from tests.support.redis import running_redis
from tests.support.waiting import until
from tests.support.worker import ROOT, running_worker
from tests.support.world import World, gate_message, recover_message

ARTIFACTS = ROOT / ".artifacts" / "flower"
CREDENTIALS = "gravedigger:hunter2"
PREFIX = "graves"
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")

needs_chromium = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver on PATH")


@dataclass(frozen=True)
class Flower:
    """A running Flower. It has seen three tasks: `message` and a gate, which were done, and one that failed."""

    port: int
    message: RecoverMessage

    @property
    def url(self) -> str:
        """Of the page itself, below its prefix."""
        return f"http://127.0.0.1:{self.port}/{PREFIX}"

    def request(self, method: str, path: str, credentials: str | None = CREDENTIALS) -> urllib3.BaseHTTPResponse:
        """Ask without a browser."""
        headers = urllib3.make_headers(basic_auth=credentials) if credentials else {}
        with urllib3.PoolManager(retries=False, timeout=20.0) as pool:
            return pool.request(method, self.url + path, headers=headers, redirect=False)

    def tasks(self) -> dict[str, Any]:
        """The tasks that it knows, by id."""
        answer: dict[str, Any] = self.request("GET", "/api/tasks").json()
        return answer


@pytest.fixture(scope="module")
def flower(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flower]:
    directory = tmp_path_factory.mktemp("flower")
    with ExitStack() as stack:
        world = World()
        kubeconfigs = {"kubeconfig": directory / "upstream", "downstream_kubeconfig": directory / "downstream"}
        for path, cluster in zip(kubeconfigs.values(), (world.up, world.down), strict=True):
            write_kubeconfig(path, stack.enter_context(Server(cluster.store).running()).url)
        broker = stack.enter_context(running_redis(directory)).url
        settings = Settings.load(
            enable_tombstone_recovery=True, broker_url=broker, pod_namespace=NAMESPACE, **kubeconfigs
        )
        stack.enter_context(running_worker(directory, settings))
        port = stack.enter_context(running_flower(directory, settings))
        shop = _recreated(world, "shop", slices=["slice-0"])
        world.add_slice("slice-0", [manifest(name="kept")])
        cart = _recreated(world, "cart", slices=["nowhere"], synthesizer="carts")
        found = Flower(port, recover_message(shop, scope=settings.scope))
        until(lambda: found.request("GET", "/workers?json=1").json()["data"], "Flower hears of the worker", seconds=60)
        dispatcher = Dispatcher.connect(settings)
        stack.callback(dispatcher.close)
        for message in (found.message, gate_message(shop), recover_message(cart)):
            dispatcher.enqueue(message)
        ended = {"SUCCESS", "FAILURE"}
        until(lambda: [each["state"] in ended for each in found.tasks().values()] == [True] * 3, "all have ended")
        yield found


def _recreated(world: World, name: str, *, slices: list[str], synthesizer: str = SYNTHESIZER) -> Composition:
    """A composition that was lost: its history lists `kept` and `lost`."""
    composition = world.add_composition(name, current=synthesis(slices=slices), synthesizer=synthesizer)
    world.remember([entry(name="kept"), entry(name="lost")], name=name, synthesizer=synthesizer)
    return composition


@contextmanager
def running_flower(directory: Path, settings: Settings) -> Iterator[int]:
    """`celery -A workers flower` below a prefix. Its port."""
    log = directory / "flower.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            flower_command("--port=0"),
            env=environment(settings, FLOWER_BASIC_AUTH=CREDENTIALS, FLOWER_URL_PREFIX=PREFIX),
            cwd=directory,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        visit = re.compile(rf"Visit me at http://127\.0\.0\.1:(\d+)/{PREFIX}/")
        found = until(lambda: visit.search(log.read_text(encoding="utf-8")), "Flower listens", seconds=60)
        yield int(found[1])
    finally:
        process.kill()
        process.wait()


def flower_command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "celery", "-A", "workers", "flower", *arguments]


def environment(settings: Settings, **more: str) -> dict[str, str]:
    ours = {"POD_NAMESPACE": NAMESPACE, "SEXTON_BROKER_URL": settings.broker_url, "PYTHONPATH": str(ROOT)}
    return {"PATH": os.environ["PATH"], "SEXTON_ENABLE_TOMBSTONE_RECOVERY": "true"} | ours | more


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Chrome]:
    """A fresh Chromium that talks to nobody but Flower, and remembers every request."""
    options = ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in (
        "headless",
        "no-sandbox",
        "disable-gpu",
        "disable-dev-shm-usage",
        "disable-quic",
        "no-first-run",
        "disable-background-networking",
        "disable-component-update",
        "disable-sync",
        "window-size=1500,640",
        f"user-data-dir={tmp_path / 'profile'}",
    ):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"performance": "ALL"})
    with Chrome(options, ChromeService(DRIVER)) as chrome:
        yield chrome


def failed_requests(browser: Chrome) -> list[str]:
    """What the browser asked for and did not get."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    urls, failures = {}, []
    for method, params in ((each["method"], each["params"]) for each in messages):
        if method == "Network.requestWillBeSent":
            urls[params["requestId"]] = params["request"]["url"]
        elif method == "Network.loadingFailed" and params["requestId"] in urls:  # others are the browser's own
            failures.append(f"{params['errorText']} {urls[params['requestId']]}")
        elif method == "Network.responseReceived" and params["response"]["status"] >= 400:
            failures.append(f"{params['response']['status']} {params['response']['url']}")
    assert any("/static/" in url for url in urls.values()), "static files were asked for"
    return failures


@needs_chromium
def test_a_person_finds_a_finished_recovery(flower: Flower, browser: Chrome) -> None:
    ARTIFACTS.mkdir(parents=True, exist_ok=True)
    wait = WebDriverWait(browser, 30)
    browser.get(flower.url.replace("//", f"//{CREDENTIALS}@") + "/tasks")
    row = "//tr[td[contains(., 'FinishedTombstoneRecovery')]]"
    link = wait.until(lambda page: page.find_element(By.XPATH, f"{row}//a[contains(@href, '/task/')]"))
    cells = [cell.text for cell in browser.find_elements(By.CSS_SELECTOR, "#tasks-table tbody tr td")]
    message = flower.message
    assert any("sexton.recover" in cell for cell in cells), cells
    assert f"{NAMESPACE}/shop synthesis={message.synthesis_uuid} uid={message.uid}" in cells
    assert "done: FinishedTombstoneRecovery" in cells
    assert sorted(cell for cell in cells if cell in ("SUCCESS", "FAILURE")) == ["FAILURE", "SUCCESS", "SUCCESS"]
    assert any(cell.startswith("retry: get resourceslices.eno.azure.io apps/nowhere: 404") for cell in cells), cells
    browser.save_screenshot(str(ARTIFACTS / "tasks.png"))
    link.click()
    wait.until(lambda page: page.find_element(By.ID, "task-page"))
    detail = browser.find_element(By.ID, "task-page").text
    for expected in ("sexton.recover", f"{NAMESPACE}/shop", message.uid, "done: FinishedTombstoneRecovery"):
        assert expected in detail
    browser.save_screenshot(str(ARTIFACTS / "task.png"))
    browser.get(f"{flower.url}/workers")
    wait.until(lambda page: "Online" in page.find_element(By.TAG_NAME, "main").text)
    browser.save_screenshot(str(ARTIFACTS / "workers.png"))
    assert failed_requests(browser) == []


PAGES = ("/", "/workers", "/tasks", "/task/x", "/broker", "/api/tasks", "/api/workers", "/api/queues/length")


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("credentials", [None, "gravedigger:wrong"], ids=["without credentials", "with wrong ones"])
def test_nothing_is_shown_to_strangers(flower: Flower, path: str, credentials: str | None) -> None:
    assert flower.request("GET", path, credentials).status == 401


def api_routes() -> list[str]:
    """Every path of the API that takes a POST, with something in place of its parameters."""
    from flower.urls import handlers

    routes = [handler for handler in handlers if isinstance(handler, tuple) and handler[0].startswith("/api/")]
    writing = [pattern for pattern, handler, *_ in routes if "post" in vars(handler)]
    return [re.sub(r"\(.*?\)", "something", pattern) for pattern in writing]


@pytest.mark.parametrize("path", api_routes())
def test_nobody_may_do_more_than_look(flower: Flower, path: str) -> None:
    answer = flower.request("POST", path)
    assert (answer.status, answer.data.decode()) == (403, "Read only mode is enabled")
    assert flower.request("POST", path, None).status == 401


def test_the_routes_that_write_are_those_that_are_known() -> None:
    """A Flower with another way to write needs another look at what its read-only mode refuses."""
    assert len(api_routes()) == 14
    assert "/api/worker/shutdown/something" in api_routes()
    assert "/api/task/revoke/something" in api_routes()


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
def test_there_is_no_other_way_to_write(flower: Flower, method: str) -> None:
    assert flower.request(method, "/api/tasks").status == 405


def test_static_files_are_found_below_the_prefix(flower: Flower) -> None:
    page = flower.request("GET", "/tasks").data.decode()
    files = re.findall(r'(?:src|href)="(/[^"]*/static/[^"]*)"', page)
    assert len(files) >= 5
    for name in files:
        assert name.startswith(f"/{PREFIX}/static/")
        assert flower.request("GET", name.removeprefix(f"/{PREFIX}").partition("?")[0]).status == 200


@pytest.mark.parametrize(
    "variables",
    [
        pytest.param({}, id="nothing is configured"),
        pytest.param({"FLOWER_UNAUTHENTICATED_API": "true"}, id="an API for everybody is asked for"),
    ],
)
def test_it_does_not_start_without_authentication(variables: dict[str, str]) -> None:
    settings = Settings.load(pod_namespace=NAMESPACE)
    refused = subprocess.run(
        flower_command("--port=0"),
        env=environment(settings, **variables),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert refused.returncode == 2
    (line,) = refused.stderr.splitlines()
    assert line.startswith("sexton: flower: no authentication is configured; set FLOWER_BASIC_AUTH=user:password")
