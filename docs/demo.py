"""docs/demo.py BINARY: draws docs/demo.svg, a picture of what `longhaul demo` prints.

The text is the program's own. Only its width is fitted: rows between the interesting ones are left
out, as the program itself leaves them out.
"""

import html
import pathlib
import re
import subprocess
import sys

KEEP = ("direct", "  400", "through", "request ", "     40 ", "     41 ", "     42 ", "     49 ", "     68 ",
        "     99 ", "    112 ", "totals", "requests answered", "tokens saved", "found in")
WIDTH, LINE, LEFT, TOP = 112, 17, 16, 46
COLOURS = [(r"died.*", "#ff7b72"), (r"finished.*", "#7ee787"), (r"refused as too large.*", "#ffa657"),
           (r"a summary for old history.*", "#79c0ff"), (r"old tool results cleared.*", "#d2a8ff")]

output = subprocess.run([sys.argv[1], "demo"], check=True, capture_output=True, text=True).stdout
lines = [line[:WIDTH] for line in output.splitlines() if line.startswith(KEEP)]
# An empty line above each table, as the program prints one.
lines = [part for line in lines for part in (["", line] if line.startswith(("request ", "totals")) else [line])]
if not any("112 of 112" in line for line in lines):
    sys.exit("the demo did not finish as it should")
height = TOP + LINE * (len(lines) + 2)
width = LEFT * 2 + int(WIDTH * 7.85)


def spans(line):
    # No-break spaces: a viewer may fold others.
    text = html.escape(line)
    for pattern, colour in COLOURS:
        text, found = re.subn(f"({pattern})", rf'<tspan fill="{colour}">\1</tspan>', text, count=1)
        if found:
            break
    head, *rest = text.split("<tspan")
    return "<tspan".join([head.replace(" ", "\u00a0"), *rest])


rows = "".join(
    f'<text x="{LEFT}" y="{TOP + LINE * (at + 2)}">{spans(line)}</text>\n' for at, line in enumerate(lines)
)
svg = f"""<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" aria-label="Output of longhaul demo">
<rect width="100%" height="100%" rx="8" fill="#0d1117"/>
<circle cx="20" cy="18" r="5" fill="#ff5f56"/><circle cx="38" cy="18" r="5" fill="#ffbd2e"/><circle cx="56" cy="18" r="5" fill="#27c93f"/>
<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="13" fill="#e6edf3" xml:space="preserve">
<text x="{LEFT}" y="{TOP}"><tspan fill="#7ee787">$</tspan> longhaul demo</text>
{rows}</g>
</svg>
"""
pathlib.Path(__file__).with_name("demo.svg").write_text(svg)
