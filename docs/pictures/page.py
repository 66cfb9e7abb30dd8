"""docs/pictures/page.py BINARY: draws docs/pictures/page.svg, a moving picture of what `longhaul demo --open` shows.

Chromium, the browser of the tests, plays the page without a window. The picture holds its screenshots, one for
each change of the chart.
"""

import base64
import json
import pathlib
import re
import subprocess
import sys
import time

WIDTH, HEIGHT, QUALITY = 960, 700, 40
FRAME_SECONDS, LAST_SECONDS = 0.6, 4
# Every second screenshot keeps the picture below 1 MB.
STEP, MAX_BYTES = 2, 1_000_000
# The trick of the tests: the browser reads commands from descriptor 3, and writes messages to descriptor 4.
SHELL = ["sh", "-c", 'exec "$0" "$@" 3<&0 4>&1 1>&2', "chromium"]
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars", "--remote-debugging-pipe"]


class Browser:
    def __init__(self):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(SHELL + FLAGS, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
        self.sent, self.session = 0, {}
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = {"sessionId": self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}
        self.ask("Emulation.setDeviceMetricsOverride", width=WIDTH, height=HEIGHT, deviceScaleFactor=1, mobile=False)

    def ask(self, method, **params):
        self.sent += 1
        command = {"id": self.sent, "method": method, "params": params, **self.session}
        self.process.stdin.write(json.dumps(command).encode() + b"\0")
        self.process.stdin.flush()
        while True:
            message = bytearray()
            while (byte := self.process.stdout.read(1)) != b"\0":
                if not byte:
                    sys.exit("chromium has ended")
                message += byte
            answer = json.loads(message)
            if answer.get("id") == self.sent:
                return answer["result"]

    def value(self, expression):
        return self.ask("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def frame(self):
        return self.ask("Page.captureScreenshot", format="webp", quality=QUALITY)["data"]


demo = subprocess.Popen([sys.argv[1], "demo", "--open"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
browser = Browser()
frames = []
try:
    address = next(found for line in demo.stderr if (found := re.search(r"http://\S+", line)))[0]
    browser.ask("Page.navigate", url=address)
    shown = ""
    # The newest request, as the list names it. A session that stands still for a while has ended.
    changed = time.monotonic()
    while time.monotonic() - changed < 8:
        newest = browser.value("document.querySelector('.request .number')?.innerText")
        if newest and newest != shown:
            shown, changed = newest, time.monotonic()
            time.sleep(0.2)
            frames.append(browser.frame())
        time.sleep(0.1)
    frames.append(browser.frame())
finally:
    demo.terminate()
    browser.process.terminate()
frames = frames[::-STEP][::-1]
if len(frames) < 10:
    sys.exit("the demo did not play as it should")

total = FRAME_SECONDS * (len(frames) - 1) + LAST_SECONDS
images, rules = [], []
for at, frame in enumerate(frames):
    begin, end = (100 * FRAME_SECONDS * number / total for number in (at, at + 1))
    is_last = at == len(frames) - 1
    steps = [(0, at == 0), (begin, True), (100 if is_last else end, is_last), (100, is_last)]
    steps = "".join(f"{share:.3f}%{{opacity:{int(is_shown)}}}" for share, is_shown in steps)
    rules.append(f"@keyframes f{at}{{{steps}}}")
    images.append(
        f'<image width="{WIDTH}" height="{HEIGHT}" style="animation-name:f{at}" href="data:image/webp;base64,{frame}"/>'
    )
svg = f"""<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="The page of longhaul while a recorded session plays">
<style>image{{opacity:0;animation-duration:{total:.1f}s;animation-timing-function:step-end;animation-iteration-count:infinite}}
image:last-of-type{{opacity:1}}@media(prefers-reduced-motion:reduce){{image{{animation:none}}}}
{"".join(rules)}</style>
{chr(10).join(images)}
</svg>
"""
if len(svg) > MAX_BYTES:
    sys.exit(f"the picture has {len(svg)} bytes")
pathlib.Path(__file__).with_name("page.svg").write_text(svg)
print(f"docs/pictures/page.svg: {len(frames)} frames, {len(svg) // 1024} KiB")
