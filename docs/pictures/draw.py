#!/usr/bin/env python3
"""docs/pictures/draw.py BINARY [--check]: draws the pictures of the docs from what the program prints.

Numbers are the program's own, and those of bench/FIGURES.md. `--check` writes nothing, and fails where a
picture differs from its file.
"""

import fcntl
import html
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import termios

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BINARY = str(pathlib.Path(sys.argv[1]).resolve())
WIDTH = 760
STYLE = """<style>
text{font:13px system-ui,-apple-system,"Segoe UI",sans-serif;fill:#1f2328}
.h{font-weight:600;font-size:14px}.d{fill:#59636e}.m{text-anchor:middle}.e{text-anchor:end}
.page{fill:#fff;stroke:#d0d7de}.box{fill:#f6f8fa;stroke:#8c959f}.own{fill:#e6f0fa;stroke:#1f5fa5}
.line{stroke:#59636e;fill:none}.head{fill:#59636e}.retry{stroke:#bc4c00}.retry.head{fill:#bc4c00;stroke:none}.rt{fill:#bc4c00}
.grey{fill:#c4ccd4}.blue{fill:#1f5fa5}.green{fill:#2d8a5b}.purple{fill:#8250df}.amber{fill:#bf8700}
.sent{stroke:#8c959f;fill:none;stroke-width:1.5}.out{stroke:#1f5fa5;fill:none;stroke-width:2}
.saved{fill:#2d8a5b;opacity:.2}.flow{fill:#8c959f;opacity:.18}.win{stroke:#59636e;stroke-dasharray:3 3}
@media (prefers-color-scheme:dark){
text{fill:#e6edf3}.d{fill:#9198a1}.page{fill:#0d1117;stroke:#3d444d}.box{fill:#151b23;stroke:#656c76}
.own{fill:#10233c;stroke:#58a6ff}.line{stroke:#9198a1}.head{fill:#9198a1}.retry{stroke:#ffa657}.retry.head,.rt{fill:#ffa657}
.grey{fill:#3d444d}.blue{fill:#58a6ff}.green{fill:#3fb950}.purple{fill:#a371f7}.amber{fill:#d29922}
.sent{stroke:#9198a1}.out{stroke:#58a6ff}.win{stroke:#9198a1}}
</style>
"""


def run(*arguments):
    return subprocess.run([BINARY, *arguments], check=True, capture_output=True, text=True, cwd=ROOT).stdout


def run_in_terminal(columns, *arguments):
    """Returns what the program prints on a terminal of this width."""
    own, other = os.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {**os.environ, "NO_COLOR": "1"}
    child = subprocess.Popen([BINARY, *arguments], stdout=other, cwd=ROOT, env=environment)
    os.close(other)
    output = b""
    while True:
        try:
            part = os.read(own, 65536)
        except OSError:
            break
        if not part:
            break
        output += part
    if child.wait() != 0:
        sys.exit(f"{arguments} failed")
    return output.decode().replace("\r\n", "\n")


def text(x, y, words, kind=""):
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{html.escape(words)}</text>'


def box(x, y, width, height, kind, radius=6):
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius}" class="{kind}"/>'


def arrow(x1, y1, x2, y2, kind=""):
    """A horizontal or vertical arrow."""
    dx, dy = (x2 > x1) - (x2 < x1), (y2 > y1) - (y2 < y1)
    tip = f"M{x2} {y2}L{x2 - 8 * dx - 4 * dy} {y2 - 8 * dy - 4 * dx}L{x2 - 8 * dx + 4 * dy} {y2 - 8 * dy + 4 * dx}Z"
    return f'<path d="M{x1} {y1}L{x2} {y2}" class="line {kind}"/><path d="{tip}" class="head {kind}"/>'


def picture(height, label, parts):
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{html.escape(label)}">\n'
    return head + STYLE + box(0.5, 0.5, WIDTH - 1, height - 1, "page", 8) + "\n" + "\n".join(parts) + "\n</svg>\n"


def terminal(command, lines, colours, columns):
    left, line, top = 16, 17, 46
    width, height = left * 2 + int(columns * 7.85), top + line * (len(lines) + 2)
    rows = []
    for at, words in enumerate(lines):
        # No-break spaces: a viewer may fold others.
        words = html.escape(words)
        for pattern, colour in colours:
            words, found = re.subn(f"({pattern})", rf'<tspan fill="{colour}">\1</tspan>', words, count=1)
            if found:
                break
        head, *rest = words.split("<tspan")
        words = "<tspan".join([head.replace(" ", "\u00a0"), *rest])
        rows.append(f'<text x="{left}" y="{top + line * (at + 2)}">{words}</text>\n')
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" aria-label="Output of {command}">
<rect width="100%" height="100%" rx="8" fill="#0d1117"/>
<circle cx="20" cy="18" r="5" fill="#ff5f56"/><circle cx="38" cy="18" r="5" fill="#ffbd2e"/><circle cx="56" cy="18" r="5" fill="#27c93f"/>
<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="13" fill="#e6edf3" xml:space="preserve">
<text x="{left}" y="{top}"><tspan fill="#7ee787">$</tspan> {command}</text>
{"".join(rows)}</g>
</svg>
"""


COLOURS = [(r"died.*", "#ff7b72"), (r"finished.*", "#7ee787"), (r"refused as too large.*", "#ffa657"),
           (r"a summary for old history.*", "#79c0ff"), (r"old tool results cleared.*", "#d2a8ff"),
           (r"cleared [A-Z][a-z]* .*", "#d2a8ff"), (r"added: .*|summarised: .*", "#79c0ff"), (r"^(?:why|window|history|results|profile|tools)\b", "#7ee787")]


def demo():
    """What `longhaul demo` prints, without the rows between the interesting ones."""
    keep = ("direct", "  400", "through", "request ", "     40 ", "     41 ", "     42 ", "     49 ", "     68 ",
            "     99 ", "    112 ", "totals", "requests answered", "tokens saved", "found in")
    lines = [line[:112] for line in run("demo").splitlines() if line.startswith(keep)]
    if not any("112 of 112" in line for line in lines):
        sys.exit("the demo did not finish as it should")
    # An empty line above each table, as the program prints one.
    lines = [part for line in lines for part in (["", line] if line.startswith(("request ", "totals")) else [line])]
    return terminal("longhaul demo", lines, COLOURS, 112)


def explain():
    """One explanation, on a terminal of 80 columns."""
    file = "fixtures/sessions/cli-0123.json.gz"
    lines = run_in_terminal(80, "explain", "--window", "6000", file).rstrip("\n").split("\n")
    return terminal("longhaul explain --window 6000 request.json", lines, COLOURS, 80)


def layers():
    """The layers of one request, before and after."""
    report = json.loads(run("explain", "--window", "16000", "--json", "fixtures/sessions/cli-0199.json.gz"))
    tools = report["totals"]["tools"]
    parts = [(layer["layer"], layer["tokens"] + layer["freed"], layer["tokens"], layer) for layer in report["layers"]]
    parts = [(name, before + tools * (name == "head"), after + tools * (name == "head"), layer) for name, before, after, layer in parts]
    scale, left = 712 / sum(before for _, before, _, _ in parts), 24
    kinds = {"head": "grey", "summary": "purple", "steps": "amber", "tail": "blue"}
    words = {
        "head": "head: tools, system prompt, first request; word for word",
        "summary": "summary or digest: in place of messages {from} to {through}",
        "steps": "steps: words and calls stay, {cleared} results are cleared",
        "tail": "tail: the newest messages and results; word for word",
    }
    drawn = [text(left, 30, f"The agent sends {sum(part[1] for part in parts):,} tokens", "h"),
             text(left + 16 + scale * sum(part[2] for part in parts), 141, f"The model receives {sum(part[2] for part in parts):,}", "h")]
    x = y = left
    row = 178
    for name, before, after, layer in parts:
        wide, narrow = before * scale, after * scale
        drawn += [f'<path d="M{x:.1f} 74H{x + wide:.1f}L{y + narrow:.1f} 120H{y:.1f}Z" class="flow"/>',
                  box(x, 42, wide, 32, kinds[name], 0), box(y, 120, narrow, 32, kinds[name], 0),
                  box(left, row - 11, 12, 12, kinds[name], 2),
                  text(left + 20, row, words[name].format(**layer)),
                  text(736, row, f"{before:,} → {after:,} tokens" if before != after else f"{after:,} tokens", "e d")]
        x, y, row = x + wide, y + narrow, row + 22
    return picture(row - 2, "A request in layers, as the agent sends it and as the model receives it", drawn)


def path():
    """The path of a request."""
    steps = ["read the body, find the messages", "decide: clear results, replace old history", "splice: all other bytes stay as they came",
             "send", "hold the reply until it is no refusal", "relay the reply, note what was counted"]
    drawn = [box(20, 96, 110, 64, "box"), text(75, 124, "agent", "h m"), text(75, 144, "base URL", "d m"),
             box(630, 96, 110, 64, "box"), text(685, 124, "provider", "h m"), text(685, 144, "or server", "d m"),
             box(200, 20, 360, 196, "own"), text(216, 44, "longhaul, for a chat", "h")]
    for at, words in enumerate(steps):
        drawn.append(text(216, 72 + at * 26, f"{at + 1}  {words}"))
    drawn += [arrow(130, 118, 200, 118), arrow(200, 142, 130, 142), arrow(560, 118, 630, 118), arrow(630, 142, 560, 142),
              '<path d="M516 176H536V94" class="line retry"/>', arrow(536, 94, 500, 94, "retry"),
              text(20, 240, "5 → 2: refused as too long. longhaul learns the window and sends a smaller request, once.", "rt"),
              text(20, 262, "Everything that is no chat streams through unread.", "d")]
    return picture(280, "The path of a request: agent, longhaul, provider", drawn)


def fleet():
    """Replicas that share Redis."""
    drawn = []
    for at, name in enumerate(["Codex", "Claude Code", "your SDK"]):
        y = 26 + at * 62
        drawn += [box(20, y, 110, 44, "box"), text(75, y + 27, name, "m"),
                  f'<path d="M130 {y + 22}L180 110" class="line"/>']
    drawn += [box(180, 84, 104, 52, "box"), text(232, 106, "load", "m"), text(232, 123, "balancer", "m")]
    for at in range(3):
        y = 26 + at * 62
        drawn += [f'<path d="M284 110L350 {y + 22}" class="line"/>', box(350, y, 130, 44, "own"),
                  text(415, y + 27, f"longhaul {at + 1}", "m"), f'<path d="M480 {y + 22}L610 110" class="line"/>']
    drawn += [box(610, 84, 130, 52, "box"), text(675, 115, "provider", "m"),
              arrow(415, 194, 415, 232), box(300, 232, 230, 62, "box"), text(415, 256, "Redis or Valkey", "h m"),
              text(415, 277, "summaries, windows, originals", "d m"),
              text(20, 250, "No request depends on Redis:", "d"), text(20, 268, "if it is away, each replica", "d"), text(20, 286, "goes on from memory.", "d"),
              text(546, 250, "Encrypted under a key of", "d"), text(546, 268, "the caller; a summary is", "d"), text(546, 286, "made and paid for once.", "d")]
    return picture(314, "Three replicas of longhaul behind a load balancer share one Redis", drawn)


def bill():
    """The bill by window, from bench/FIGURES.md."""
    table = (ROOT / "bench/FIGURES.md").read_text().split("| `auto` at a window of |")[1]
    rows = re.findall(r"^\| ([\d,]+) \| (0\.\d+) \|", table, re.MULTILINE)[:3]
    rows = [("endless window, no proxy", 1.0, "grey")] + [(f"{window} tokens", float(share), "blue") for window, share in reversed(rows)]
    drawn = [text(24, 30, "What the input of 78 recorded sessions costs", "h"),
             text(24, 50, "Cached input at a tenth of the price; summaries without a model; profile auto.", "d")]
    for at, (words, share, kind) in enumerate(rows):
        y = 72 + at * 34
        drawn += [text(24, y + 16, words), box(210, y, 440 * share, 22, kind, 3), text(220 + 440 * share, y + 16, f"{share:.2f}")]
    return picture(72 + 34 * len(rows) + 10, "Cost of input by window, relative to an endless window", drawn)


def sawtooth():
    """The demo's session in three windows."""
    drawn = [text(24, 30, "Tokens of each request: sent by the agent, and forwarded", "h")]
    for at, window in enumerate((32_768, 65_536, 110_000)):
        report = json.loads(run("demo", "--json", "--window", str(window)))
        rows = report["longhaul"]["rows"]
        left, bottom, wide, high = 24 + at * 242, 210, 226, 140
        most = max(row["tokens_sent"] for row in rows)
        place = lambda n, tokens: f"{left + wide * n / len(rows):.1f} {bottom - high * tokens / most:.1f}"
        line = lambda key: "L".join(place(n + 1, row[key]) for n, row in enumerate(rows))
        back = "L".join(place(n + 1, row["tokens_forwarded"]) for n, row in reversed(list(enumerate(rows))))
        y = bottom - high * window / most
        drawn += [f'<path d="M{line("tokens_sent")}L{back}Z" class="saved"/>', f'<path d="M{left} {y:.1f}H{left + wide}" class="win"/>',
                  f'<path d="M{line("tokens_sent")}" class="sent"/>', f'<path d="M{line("tokens_forwarded")}" class="out"/>',
                  f'<path d="M{left} {bottom}H{left + wide}" class="line"/>',
                  text(left, bottom + 20, f"window {window:,}"), text(left + wide, bottom + 20, f"{len(rows)} requests", "d e")]
    drawn.append(text(24, 256, f"Grey: sent, up to {most:,} tokens. Blue: forwarded. Dashed: the window. Green: saved.", "d"))
    return picture(274, "One session in three windows: the forwarded size falls at each compaction", drawn)


PICTURES = {"demo": demo, "explain": explain, "layers": layers, "path": path, "fleet": fleet, "bill": bill, "sawtooth": sawtooth}


def main():
    stale = []
    for name, draw in PICTURES.items():
        file, drawn = HERE / f"{name}.svg", draw()
        if "--check" not in sys.argv:
            file.write_text(drawn)
        elif not file.exists() or file.read_text() != drawn:
            stale.append(file.name)
    if stale:
        sys.exit(f"out of date: {', '.join(stale)}; run docs/pictures/draw.py BINARY")


main()
