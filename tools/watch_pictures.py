"""Makes the pictures of the dashboard for README and the documentation: python tools/watch_pictures.py [FOLDER]

They show a made-up week of a simulated node (src/ongpu/watch/web/demo.py), drawn by Chromium (tools/install_debian_parts chromium); needs
`playwright` and the extra [web]. Writes docs/_static/watch-now.png, watch-incident.png and watch-queue.png, each 1280 pixels wide and
below 200 kB.
"""

import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from ongpu.store import Store
from ongpu.watch.web import demo

WIDTH, MOST = 1280, 200_000
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]


def speak(path: Path, stop: threading.Event) -> None:
    """The agent goes on to say the same, so that nothing is told as old."""
    with Store(path) as store:
        now = json.loads(store.now() or "{}")
        while not stop.is_set():
            store.put_now(json.dumps({**now, "written": time.time()}))
            stop.wait(1.0)


def main(folder: Path) -> int:
    """Writes the pictures; 1 where one is too large."""
    too_large = 0
    with tempfile.TemporaryDirectory() as place:
        path, stop = Path(place) / "watch.db", threading.Event()
        demo.fill(path)
        with Store(path, readonly=True) as store:
            lost = next(one["id"] for one in store.incidents(open_only=True) if one["slug"] == "gpu-fell-off-bus")
        speaker = threading.Thread(target=speak, args=(path, stop))
        speaker.start()
        command = [sys.executable, "-m", "ongpu", "watch", "web", "--store", str(path), "--listen", "127.0.0.1:0", "--lang", "en"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=place) as server, sync_playwright() as started:
            assert server.stderr
            site = server.stderr.readline().split()[-1].rstrip("/")
            browser = started.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
            context = browser.new_context(viewport={"width": WIDTH, "height": 960}, color_scheme="light")
            wants = {"ongpu_lang": "en", "ongpu_theme": "light"}
            context.add_cookies([{"name": name, "value": value, "url": site} for name, value in wants.items()])
            page = context.new_page()
            for name, address in (("watch-now", "/"), ("watch-incident", f"/incidents/{lost}"), ("watch-queue", "/queue")):
                page.goto(site + address)
                page.wait_for_selector("main.page article, main.page .gantt")
                page.wait_for_timeout(1500)
                page.screenshot(path=str(folder / f"{name}.png"))
                size = (folder / f"{name}.png").stat().st_size
                too_large |= size > MOST
                print(f"{folder / name}.png  {size / 1000:.0f} kB")
            browser.close()
            server.terminate()
        stop.set()
        speaker.join()
    return too_large


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "docs" / "_static"))
