"""Looks at the page that hosts serve in a headless Chromium, and prints TAP.

    browser.py URL GOOD DIRECTORY GAPS    GOOD: what the page must say; screenshots go into the directory; GAPS: at least so many are marked

It speaks the browser's own protocol over two pipes.
"""
import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

SIZES = {400: 900, 1400: 1000}


class Browser:
    def __init__(self, program):
        self.profile = tempfile.mkdtemp(prefix="tram-page.")
        to_read, self.to = os.pipe()
        self.come, come_write = os.pipe()
        # The browser reads from its descriptor 3 and writes to 4.
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec 8<&{to_read} 9>&{come_write} && exec 3<&8 4>&9 && exec "$@"', "-", program, "--headless",
             "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run", f"--user-data-dir={self.profile}",
             "about:blank"],
            pass_fds=(to_read, come_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(come_write)
        self.rest, self.number, self.events, self.session = b"", 0, [], None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def one(self):
        while b"\0" not in self.rest:
            more = os.read(self.come, 1 << 16)
            if not more:
                raise SystemExit("Bail out! the browser has ended")
            self.rest += more
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def ask(self, method, **params):
        self.number += 1
        question = {"id": self.number, "method": method, "params": params}
        if self.session:
            question["sessionId"] = self.session
        os.write(self.to, json.dumps(question).encode() + b"\0")
        while True:
            message = self.one()
            if message.get("id") == self.number:
                if "error" in message:
                    raise SystemExit(f"Bail out! {method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def value(self, expression):
        return self.ask("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def close(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)


def main():
    url, good, directory, gaps = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), int(sys.argv[4])
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if not program:
        print("1..0 # SKIP there is no chromium; tools/deps page installs it")
        return 0
    number = failed = 0

    def verdict(well, name, text=""):
        nonlocal number, failed
        number += 1
        failed += not well
        print("ok" if well else "not ok", number, "-", f"page__{name}")
        if not well:
            print("#", text)

    b = Browser(program)
    for domain in ("Page", "Runtime", "Network", "Log"):
        b.ask(f"{domain}.enable")
    for width, height in SIZES.items():
        for scheme in ("light", "dark"):
            b.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 800)
            b.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            b.ask("Page.navigate", url=url)
            end = time.time() + 60
            said = None
            while said != good and time.time() < end:
                time.sleep(0.1)
                said = b.value("document.getElementById('well')?.textContent")
            verdict(said == good, f"says_how_it_is_at_{width}_{scheme}", f"wanted '{good}', saw '{said}'")
            wide = b.value("document.documentElement.scrollWidth")
            verdict(wide <= width, f"is_no_wider_than_its_window_at_{width}_{scheme}", f"{wide} pixels")
            back = b.value("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).reduce((a, b) => a + +b, 0)")
            verdict((back < 200) == (scheme == "dark"), f"is_{scheme}_at_{width}", f"background {back}")
            rows = b.value("document.querySelectorAll('#groups tr').length + document.querySelectorAll('#tree rect').length")
            marks = b.value("document.querySelectorAll('#rate path[stroke=\"var(--bad)\"]').length")
            verdict(marks >= gaps, f"marks_gaps_at_{width}_{scheme}", f"{marks} marks")
            disks = b.value("[...document.querySelectorAll('#hosts th')].some(h => h.textContent === 'flush p50')")
            verdict(disks, f"shows_disks_at_{width}_{scheme}")
            verdict(rows > 3, f"shows_what_there_is_at_{width}_{scheme}", f"{rows} rows and boxes")
            shot = b.ask("Page.captureScreenshot", format="png")["data"]
            (directory / f"page-{width}-{scheme}.png").write_bytes(base64.b64decode(shot))
    asked = {e["params"]["request"]["url"] for e in b.events if e.get("method") == "Network.requestWillBeSent"}
    beyond = {u for u in asked if not u.startswith(url) and not u.startswith("about:")}
    verdict(asked and not beyond, "asks_nobody_else", str(beyond))
    wrong = [e["params"] for e in b.events if e.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded")]
    wrong = [w for w in wrong if "favicon" not in json.dumps(w)]
    verdict(not wrong, "has_no_mistakes", json.dumps(wrong)[:500])
    b.close()
    print(f"1..{number}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
