"""The dashboard as a person sees it, in headless Chromium, and its API as a fuzzer sees it; a real server, a real store.

The pictures go to the folder that ONGPU_PICTURES names, else away. README's are made by tools/watch_pictures.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ongpu.store import Store
from ongpu.watch.web import demo
from ongpu.watch.web.pages.queue import FEW
from ongpu.watch.web.tokens import create

pytestmark = [pytest.mark.slow, pytest.mark.real]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync",
)  # fmt: skip
EVIL = "<img src=x onerror=\"document.title='hacked'\"><script>document.title='hacked'</script>{b}"
PAGES = ("/", "/queue?range=24h", "/history?range=24h", "/incidents", "/work?range=7d", "/fleet")


def speak(path: Path, stop: threading.Event) -> None:
    """The agent goes on to say the same."""
    with Store(path) as store:
        now = json.loads(store.now() or "{}")
        while not stop.is_set():
            store.put_now(json.dumps({**now, "written": time.time()}))
            stop.wait(1.0)


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A made-up week, and an agent that goes on to speak."""
    path = tmp_path_factory.mktemp("week") / "watch.db"
    demo.fill(path)
    create(path.with_name("web.token"))
    (path.parent / "ongpu").mkdir()
    (path.parent / "ongpu" / "watch.toml").write_text("[web]\nsubmit = true\n")  # the queue beside a simulated node is made up
    stop = threading.Event()
    thread = threading.Thread(target=speak, args=(path, stop))
    thread.start()
    yield path
    stop.set()
    thread.join()


@contextlib.contextmanager
def served(path: Path, *more: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """`ongpu watch web`: its address and process."""
    environ = {**os.environ, "XDG_CONFIG_HOME": str(path.parent)}
    command = [sys.executable, "-m", "ongpu", "watch", "web", "--store", str(path), "--listen", "127.0.0.1:0", "--lang", "en", *more]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environ, cwd=path.parent) as process:
        try:
            assert process.stderr
            told = ""
            while "dashboard http" not in told:
                line = process.stderr.readline()
                assert line, told
                told += line
            yield re.findall(r"dashboard (https?://\S+)/", told)[0], process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(15)
            assert process.stderr
            rest = process.stderr.read()
    assert "Traceback" not in rest, rest


@pytest.fixture(scope="module")
def site(week: Path) -> Iterator[str]:
    """The address of a server."""
    with served(week) as (address, _):
        until_up(address)
        yield address


def until_up(address: str) -> None:
    """Waits for the first answer."""
    for _ in range(100):
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{address}/api/v1/health", timeout=5).close()
            return
        time.sleep(0.1)
    raise AssertionError(address)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium."""
    play = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM:
        pytest.skip("no Chromium (tools/install_debian_parts chromium)")
    with play.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        browser.close()


@contextlib.contextmanager
def reader(browser: Any, site: str, lang: str = "en", theme: str = "light", width: int = 1280) -> Iterator[Any]:
    """A page of a reader; fails where it asked another host, or something went wrong in the browser."""
    context = browser.new_context(viewport={"width": width, "height": 900}, ignore_https_errors=True)
    context.add_cookies([{"name": name, "value": value, "url": site} for name, value in (("ongpu_lang", lang), ("ongpu_theme", theme))])
    page = context.new_page()
    wrong: list[str] = []
    own = (site, site.replace("http", "ws", 1), "data:", "blob:")
    page.on("request", lambda request: None if request.url.startswith(own) else wrong.append(request.url))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    yield page
    context.close()
    assert not wrong


def go(page: Any, site: str, path: str) -> None:
    """Opens a page and waits until it is drawn."""
    page.goto(site + path, wait_until="load")
    page.wait_for_selector("main.page")
    with contextlib.suppress(Exception):
        page.wait_for_load_state("networkidle", timeout=5000)
    page.wait_for_timeout(400)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_page_is_drawn(browser: Any, site: str, week: Path, lang: str, theme: str, tmp_path: Path) -> None:
    folder = Path(os.environ.get("ONGPU_PICTURES") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    with Store(week, readonly=True) as store:
        lost = next(one["id"] for one in store.incidents(open_only=True) if one["slug"] == "gpu-fell-off-bus")
    for width in (1280, 390):
        with reader(browser, site, lang, theme, width) as page:
            for path in (*PAGES, f"/incidents/{lost}", "/queue/4341", "/login"):
                if path == "/login":
                    page.goto(site + path)
                else:
                    go(page, site, path)
                name = re.sub(r"\W+", "-", path).strip("-") or "now"
                page.screenshot(path=str(folder / f"{name}-{lang}-{theme}-{width}.png"), full_page=True)
                assert page.evaluate("document.documentElement.scrollWidth") <= width, f"{path} is wider than the window"
                assert page.evaluate("document.documentElement.lang").startswith("zh" if lang == "zh" else "en")
                assert len(page.inner_text("body")) > 40, path
                assert pale(page) == [], path
    assert len(list(folder.glob(f"*-{lang}-{theme}-*.png"))) == 18


PALE = """() => {
  const rgb = (text) => { const m = text.match(/[\\d.]+/g).map(Number); return m.length > 3 ? m : [...m.slice(0, 3), 1]; };
  const light = (colour) => {
    const c = colour.slice(0, 3).map((v) => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; });
    return .2126 * c[0] + .7152 * c[1] + .0722 * c[2]; };
  const ground = (element) => { for (let e = element; e; e = e.parentElement) {
    const colour = rgb(getComputedStyle(e).backgroundColor); if (colour[3] > .99) return colour; } return [255, 255, 255, 1]; };
  const found = [];
  for (const element of document.querySelectorAll("main *, .top *, .login *")) {
    const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !element.getClientRects().length || element.closest("canvas, svg, .q-field, .skip")) continue;
    const a = light(rgb(getComputedStyle(element).color)), b = light(ground(element));
    const contrast = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (contrast < 4.5) found.push(`${element.className} ${element.textContent.slice(0, 30)} ${contrast.toFixed(2)}`);
  }
  return [...new Set(found)].slice(0, 5);
}"""


def pale(page: Any) -> list[str]:
    """Texts with less contrast than 4.5 : 1 (https://www.w3.org/TR/WCAG22/#contrast-minimum)."""
    found: list[str] = page.evaluate(PALE)
    return found


def test_the_first_page_lives_and_every_chart_is_drawn(browser: Any, site: str, week: Path) -> None:
    with reader(browser, site) as page:
        go(page, site, "/")
        assert page.locator("article.gpu").count() == 8
        assert "lost" in page.inner_text("article.gpu >> nth=7")
        assert page.locator("article.gpu >> nth=0 >> polyline").count() == 2
        go(page, site, "/history?range=7d&metric=util,temp")
        assert page.locator("canvas").count() == 2
        inked = page.evaluate("""[...document.querySelectorAll('canvas')].map((c) => {
            const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; let n = 0;
            for (let i = 3; i < d.length; i += 4) if (d[i]) n++; return n; })""")
        assert min(inked) > 2000
        page.click("summary")
        assert "GPU 7" in page.inner_text("details table")


def test_metrics_and_gpus_are_chosen(browser: Any, site: str) -> None:
    with reader(browser, site) as page:
        go(page, site, "/history?range=24h&metric=util")
        for place, name in ((0, "Fan"), (1, "GPU 3")):
            page.click(f".chooser >> nth={place}")
            page.click(f".q-item:has-text('{name}')")
            page.keyboard.press("Escape")
            page.wait_for_url("**fan**" if place == 0 else "**gpu=3**")
            page.wait_for_selector("canvas >> nth=1")
        assert page.url.endswith("/history?range=24h&metric=util,fan&gpu=3")


def test_language_and_theme_are_remembered(browser: Any, site: str) -> None:
    with reader(browser, site) as page:
        page.context.clear_cookies()
        go(page, site, "/incidents")
        page.click("text=中文")
        page.wait_for_selector("h1:has-text('事件')")
        assert page.url.endswith("/incidents")
        go(page, site, "/work")
        assert page.inner_text("h1") == "用量与费用"
        for body in ("body--light", "body--dark"):
            page.click("a:has-text('主题')")
            page.wait_for_selector(f"body.{body}")


def test_the_keyboard_reaches_everything(browser: Any, site: str) -> None:
    with reader(browser, site) as page:
        go(page, site, "/incidents")
        reached = []
        for _ in range(16):
            page.keyboard.press("Tab")
            reached.append(page.evaluate("document.activeElement.textContent.trim().slice(0, 40)"))
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none", reached
        assert reached[0] == "Skip to the content"
        for name in ("Now", "History", "Fleet", "Log in"):
            assert name in reached
        assert any("GPU" in name for name in reached)
        unnamed = page.evaluate("""[...document.querySelectorAll('a, button, input, [role=button], [role=img]')].filter((e) =>
            e.getClientRects().length && !e.textContent.trim() && !e.getAttribute('aria-label') && !e.labels?.length).length""")
        assert unnamed == 0


def test_a_reader_with_the_token_acknowledges_and_silences(browser: Any, site: str, week: Path) -> None:
    token = week.with_name("web.token").read_text().strip()
    with reader(browser, site) as page:
        go(page, site, "/incidents")
        page.click("table >> nth=0 >> a >> nth=0")
        page.wait_for_selector("article.diagnosis")
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.click("[data-copy] >> nth=0")
        page.wait_for_selector("text=Copied")
        assert page.evaluate("navigator.clipboard.readText()") == page.get_attribute("[data-copy] >> nth=0", "data-copy")
        here = page.url
        assert page.locator("button:has-text('Acknowledge')").count() == 0
        page.click("text=Log in with the token")
        page.fill("#token", token)
        page.click("button:has-text('Log in')")
        page.wait_for_selector("button:has-text('Acknowledge')")
        assert page.url == here
        page.fill("input[maxlength='500']", EVIL)
        page.wait_for_timeout(300)
        page.click("button:has-text('Acknowledge')")
        page.wait_for_selector("text=acknowledged")
        assert EVIL in page.inner_text("article.diagnosis")
        page.get_by_role("button", name="Silence", exact=True).click()
        page.wait_for_selector("text=Done >> nth=0")
        go(page, site, "/incidents")
        assert "silenced" in page.inner_text("table >> nth=0")
        page.click("button:has-text('Lift')")
        page.wait_for_timeout(800)
        assert "silenced" not in page.inner_text("table >> nth=0")
        page.click("button:has-text('Log out')")
        page.wait_for_selector("a:has-text('Log in')")
    with Store(week, readonly=True) as store:
        assert any(one["ack"] and one["ack"]["note"] == EVIL for one in store.incidents())
        assert store.silences(time.time()) == []


def test_a_reader_with_the_token_submits_and_steers_jobs(browser: Any, site: str, week: Path) -> None:
    token = week.with_name("web.token").read_text().strip()
    with reader(browser, site) as page:
        go(page, site, "/queue")
        assert page.locator("button:has-text('Submit')").count() == 0
        page.click("main a:has-text('Log in with the token')")
        page.fill("#token", token)
        page.click("button:has-text('Log in')")
        page.wait_for_selector("h2:has-text('Submit a job')")
        page.get_by_role("button", name="Submit", exact=True).click()
        page.wait_for_selector("text=Write a command.")
        page.get_by_label("Command").fill(f"python train.py '{EVIL[:20]}'")
        page.get_by_label("Name", exact=True).fill(EVIL[:60])
        page.get_by_label("GPU memory, GiB").fill("20")
        page.wait_for_timeout(300)
        page.get_by_role("button", name="Submit", exact=True).click()
        note = page.wait_for_selector("text=/Submitted as job \\d+/").inner_text()
        number = re.findall(r"job (\d+)", note)[0]
        page.wait_for_selector(f"main a[href='/queue/{number}']")
        go(page, site, f"/queue/{number}")
        text = page.inner_text("article.diagnosis")
        assert EVIL[:60] in text
        assert "20 GiB" in text
        assert "python train.py" in text
        page.get_by_role("button", name="Hold", exact=True).click()
        page.wait_for_selector("article .chip:has-text('held')")
        page.get_by_role("button", name="Release", exact=True).click()
        page.wait_for_selector("article .chip:has-text('waiting')", timeout=8000)
        page.get_by_role("button", name="Cancel", exact=True).click()
        page.wait_for_selector("article .chip:has-text('cancelled')")
        assert page.get_by_role("button", name="Cancel", exact=True).count() == 0
        assert "hacked" not in page.title()


def test_a_job_that_runs_is_cancelled_by_who_means_it(browser: Any, site: str, week: Path) -> None:
    token = week.with_name("web.token").read_text().strip()
    with reader(browser, site, width=390) as page:
        page.goto(site + "/login?next=/queue/4346")
        page.fill("#token", token)
        page.click("button:has-text('Log in')")
        page.wait_for_selector("article .chip:has-text('running')")
        for answer, state in (("Let it run", "running"), ("Cancel the job", "cancelled")):
            page.get_by_role("button", name="Cancel", exact=True).click()
            page.get_by_role("button", name=answer).click()
            page.wait_for_timeout(4000)  # it is looked at anew each three seconds
            assert state in page.inner_text("article .chip")


def test_the_form_is_found_from_the_top_of_the_page(browser: Any, site: str, week: Path) -> None:
    with reader(browser, site, width=390) as page:
        page.goto(site + "/login?next=/queue")
        page.fill("#token", week.with_name("web.token").read_text().strip())
        page.click("button:has-text('Log in')")
        link = page.wait_for_selector("main a:has-text('Submit a job')")
        assert link.bounding_box()["y"] < 300
        link.click()
        page.wait_for_timeout(500)
        assert 0 <= page.get_by_label("Command").bounding_box()["y"] < 900
        assert page.locator(".latest tbody tr:visible").count() == FEW


def test_the_chart_of_the_queue_can_be_gone_through_by_keyboard(browser: Any, site: str) -> None:
    with reader(browser, site) as page:
        go(page, site, "/queue?range=6h")
        bars = page.locator(".gantt a.run[href]")
        assert bars.count() > 5
        assert all(label for label in bars.evaluate_all("all => all.map(one => one.getAttribute('aria-label'))"))
        bars.first.focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**/queue/4*")
        page.wait_for_selector("article.diagnosis")
        go(page, site, "/queue?range=24h")
        inside = page.evaluate("""() => [...document.querySelectorAll('.gantt .run')].every(one => {
            const a = one.getBoundingClientRect(), b = one.parentElement.getBoundingClientRect();
            return a.left >= b.left - 1 && a.right <= b.right + 1 && a.top >= b.top - 1 && a.bottom <= b.bottom + 1; })""")
        assert inside
        assert page.locator(".gantt .fault.error").count() >= 1


def test_a_session_that_ended_writes_nothing(browser: Any, week: Path) -> None:
    with served(week) as (site, _), reader(browser, site) as page:
        until_up(site)
        path = week.with_name("web.token")
        token = path.read_text().strip()
        page.goto(f"{site}/login?next=/incidents/1")
        page.fill("#token", token)
        page.click("button:has-text('Log in')")
        page.get_by_role("button", name="Silence", exact=True).wait_for()
        path.unlink()
        create(path)
        page.get_by_role("button", name="Silence", exact=True).click()
        page.wait_for_url("**/login**")
    with Store(week, readonly=True) as store:
        assert store.silences(time.time()) == []


def test_texts_of_others_are_never_run(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "watch.db"
    demo.fill(path, parts=((600.0, 0.0, 15.0, 100.0, 20 / 600),))
    with Store(path) as store:
        told = json.loads(store.now() or "{}")
        for gpu in told["gpus"]:
            gpu["name"] = EVIL
            for process in gpu["processes"]:
                process["host"] |= dict.fromkeys(("user", "command", "job", "container"), EVIL)
        finding = {"slug": EVIL, "severity": "error", "certainty": "certain", "words": {"en": {"title": EVIL, "why": EVIL}}}
        told["host"], told["findings"] = EVIL, [{**finding, "gpu": gpu} for gpu in (None, 0)]
        told["written"] = time.time() + 3600
        store.put_now(json.dumps(told))
        for gpu in store.gpus():
            store.see_gpu(gpu.uuid, gpu.place, EVIL, EVIL, None)
        number = store.open_incident(time.time() - 300, {
            "slug": EVIL, "subject": EVIL, "severity": "error", "words": {"en": {"title": EVIL, "why": EVIL, "fix": EVIL}},
            "commands": [{"run": EVIL, "risk": EVIL}], "refs": [{"source": EVIL, "line": 1, "quote": EVIL}],
            "see": [EVIL, "javascript:alert(1)"],
        })  # fmt: skip
        store.add_event(time.time(), {"en": EVIL})
        store.add_silence(time.time() + 60, {"slug": EVIL, "gpu_uuid": EVIL, "note": EVIL})
    with Store(path) as store:
        from ongpu.store import Use

        store.add_work([Use(time.time() - 600, gpu.id, 1, EVIL, EVIL, EVIL, 300_000, 300_000, 100_000, 0, 5, 1000) for gpu in store.gpus()])
    with served(path) as (site, _), reader(browser, site) as page:
        until_up(site)
        for place in (*PAGES, "/history?range=1h", f"/incidents/{number}", "/work?by=job", "/work?by=command", "/work?by=gpu"):
            go(page, site, place)
            assert page.locator("main img").count() == page.locator("main script").count() == 0, place
            for chart in page.locator("main canvas").all():
                box = chart.bounding_box()
                page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.6)
                page.wait_for_timeout(150)
            assert "hacked" not in page.title(), place
        assert EVIL[:20] in page.inner_text("main")


def test_a_server_on_all_addresses_needs_the_token_and_speaks_tls(browser: Any, week: Path, tmp_path: Path) -> None:
    if not shutil.which("openssl"):
        pytest.skip("no openssl")
    cert, key = tmp_path / "c.pem", tmp_path / "k.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "1", "-subj", "/CN=localhost"],
        check=True, capture_output=True,
    )  # fmt: skip
    with served(week, "--listen", "0.0.0.0:0", "--tls-cert", str(cert), "--tls-key", str(key)) as (told, _):
        site = told.replace("0.0.0.0", "localhost")
        context = ssl.create_default_context(cafile=str(cert))
        for _ in range(100):
            with contextlib.suppress(ConnectionError, urllib.error.URLError, socket.timeout):
                with contextlib.suppress(urllib.error.HTTPError):
                    urllib.request.urlopen(f"{site}/api/v1/health", context=context, timeout=5)
                break
            time.sleep(0.1)
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"{site}/api/v1/health", context=context, timeout=5)
        token = week.with_name("web.token").read_text().strip()
        asked = urllib.request.Request(f"{site}/api/v1/health", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(asked, context=context, timeout=5) as answer:
            assert json.load(answer)["agent"] == "ok"
        with reader(browser, site) as page:
            page.goto(f"{site}/work")
            assert page.url == f"{site}/login?next=/work"
            page.fill("#token", token)
            page.click("button:has-text('Log in')")
            page.wait_for_selector("h1:has-text('Use and cost')")
            (cookie,) = (one for one in page.context.cookies() if one["name"] == "ongpu_session")
            assert (cookie["httpOnly"], cookie["sameSite"], cookie["secure"]) == (True, "Strict", True)
            go(page, site, "/")
            assert page.locator("article.gpu").count() == 8


def test_the_api_is_as_its_document_says(site: str, week: Path) -> None:
    """Schemathesis: no 500, and every answer as the document tells it."""
    token = week.with_name("web.token").read_text().strip()
    told = ("status_code", "content_type", "response_schema", "response_headers")
    checks = ("not_a_server_error", *(f"{name}_conformance" for name in told))
    command = [
        sys.executable, "-m", "schemathesis.cli", "run", f"{site}/api/v1/openapi.json", "--header", f"Authorization: Bearer {token}",
        "--checks", ",".join(checks),
        "--max-examples", "40", "--seed", "7", "--phases", "coverage,fuzzing", "--no-color", "--generation-database", "none",
    ]  # fmt: skip
    found = subprocess.run(command, capture_output=True, text=True, timeout=400, cwd=week.parent)
    assert found.returncode == 0, found.stdout[-6000:] + found.stderr[-2000:]


def test_without_a_history_every_page_says_so(tmp_path: Path) -> None:
    with served(tmp_path / "none.db") as (site, _):
        until_up(site)
        for path in ("/", *PAGES[2:5], "/incidents/3"):
            with urllib.request.urlopen(site + path, timeout=20) as answer:
                assert "no history here yet" in answer.read().decode(), path
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{site}/nothing", timeout=20)


def test_a_week_is_drawn_quickly(week: Path) -> None:
    """A week of eight GPUs: what the store gives and what the chart is made of, in under 300 ms."""
    from ongpu.watch.web.pages import history
    from ongpu.watch.web.reading import Reader

    store = Reader(week)
    now = store.view().at
    begin = time.perf_counter()
    drawn = history.draw(store, history.Choice("7d", ("util",)), now)
    text = json.dumps(history.chart(drawn, "util", False, "en"))
    took = time.perf_counter() - begin
    store.close()
    assert len(text) > 50_000
    assert took < 0.3


def test_it_is_a_child_of_the_agent_and_ends_with_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (tmp_path / "watch.toml").write_text(f'[web]\nlisten = "127.0.0.1:{port}"\n[metrics]\nlisten = ""\n')
    command = [
        sys.executable, "-m", "ongpu", "watch", "--demo", "--web", "--store", str(tmp_path / "w.db"),
        "--config", str(tmp_path / "watch.toml"), "--no-kernel-log", "--quiet",
    ]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        until_up(f"http://127.0.0.1:{port}")
        for _ in range(50):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/state", timeout=5) as answer:
                state = json.load(answer)
            if state["up"]:
                break
            time.sleep(0.2)
        assert len(state["gpus"]) == 8
        process.kill()
    for _ in range(100):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            return
        time.sleep(0.1)
    raise AssertionError("the dashboard outlives an agent that was killed")
