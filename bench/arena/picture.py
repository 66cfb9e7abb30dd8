"""The picture of the arena: cost against fidelity as SVG, a panel for each window and kind of fidelity."""

import html
import itertools

import figures

# Sizes in pixels: a panel, what lies around it, and the legend.
WIDE, HIGH, LEFT, TOP, GAP, LEGEND = 300, 200, 52, 34, 26, 20
FONT = "font-family='sans-serif'"
INK, FAINT = "#334155", "#cbd5e1"
OURS = ("auto", "frugal", "standard")
KINDS = {"rules": "rules that stand", "far": "far identifiers that stand"}
# Costs beyond this are drawn at the edge.
MOST = 1.5
# Where a number stands beside its point: distances, and directions.
SHIFTS = (11, 18, 26, 36)
SIDES = ((1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (1, 1), (-1, -1), (-1, 1))
# The legend's text needs this width.
LEAST_WIDE = 3 * (WIDE + LEFT)


def colour(name):
    """The colour of a way: longhaul's own, and the others'."""
    return "#2563eb" if name in OURS else "#b45309"


def text(x, y, words, size=11, anchor="start", fill=INK):
    """A text."""
    return f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size}' {FONT} text-anchor='{anchor}' fill='{fill}'>{html.escape(words)}</text>"


def line(x1, y1, x2, y2, fill=FAINT, dash=""):
    """A line."""
    dash = f" stroke-dasharray='{dash}'" if dash else ""
    return f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}' stroke='{fill}'{dash}/>"


def labels(points):
    """Where the number of each point stands, of points by their names: at the nearest place where no other number stands."""
    taken, found = [(x - 4, y - 4, x + 4, y + 4) for x, y in points.values()], {}
    for (name, (x, y)), own in zip(points.items(), list(taken)):
        for shift, (right, down) in itertools.product(SHIFTS, SIDES):
            at = (x + right * shift - 6, y + down * shift - 5, x + right * shift + 6, y + down * shift + 5)
            others = (box for box in taken if box is not own)
            if not any(at[0] < box[2] and box[0] < at[2] and at[1] < box[3] and box[1] < at[3] for box in others):
                break
        taken.append(at)
        found[name] = (at[0] + 6, at[1] + 9)
    return found


def panel(left, top, one, kind, numbers):
    """A panel: its frame, the front as a line of steps, and a numbered point for each way. Hollow: some requests do not fit."""

    def place(way):
        return left + min(way["cost"], MOST) / MOST * WIDE, top + HIGH * (1 - way[kind])

    parts = [f"<rect x='{left}' y='{top}' width='{WIDE}' height='{HIGH}' fill='none' stroke='{FAINT}'/>"]
    for share in (0, 0.5, 1):
        parts.append(text(left - 5, top + HIGH * (1 - share) + 4, f"{100 * share:.0f}%", 10, "end"))
        cost = f"{share * MOST:.2f}".rstrip("0").rstrip(".") + ("+" if share == 1 else "")
        parts.append(text(left + share * WIDE, top + HIGH + 13, cost, 10, "middle"))
    parts.append(line(left + WIDE / MOST, top, left + WIDE / MOST, top + HIGH, dash="3 3"))
    held = sorted((place(one["ways"][name]) for name in one["front"][kind]), key=lambda at: at[0])
    for (x1, y1), (x2, y2) in zip(held, held[1:]):
        parts += [line(x1, y1, x2, y1, INK, "2 2"), line(x2, y1, x2, y2, INK, "2 2")]
    points = {name: place(figures) for name, figures in one["ways"].items() if figures[kind] is not None}
    for name, (x, y) in points.items():
        fill = colour(name) if one["ways"][name]["fit"] >= figures.HOLDS else "white"
        parts.append(f"<circle cx='{x:.1f}' cy='{y:.1f}' r='4' fill='{fill}' stroke='{colour(name)}'/>")
    for name, (x, y) in labels(points).items():
        parts.append(text(x, y, str(numbers[name]), 10, "middle", colour(name)))
    return parts


def draw(found):
    """The picture of the tables at their own sizes."""
    tables = [one for one in found["tables"] if one["mode"] == "own"]
    names = [name for name in found["order"] if any(name in one["ways"] for one in tables)]
    numbers = {name: at for at, name in enumerate(names, 1)}
    wide = LEFT + max(LEAST_WIDE, len(tables) * (WIDE + LEFT))
    rows = -(-len(names) // 3)
    high = TOP + len(KINDS) * (HIGH + GAP + TOP) + rows * LEGEND + GAP
    parts = [f"<svg xmlns='http://www.w3.org/2000/svg' width='{wide}' height='{high}' viewBox='0 0 {wide} {high}'>"]
    parts.append(f"<rect width='{wide}' height='{high}' fill='white'/>")
    for down, (kind, title) in enumerate(KINDS.items()):
        for across, one in enumerate(tables):
            left, top = LEFT + across * (WIDE + LEFT), TOP + down * (HIGH + GAP + TOP)
            parts.append(text(left, top - 8, f"{title}, window of {one['window']:,}", 12))
            parts += panel(left, top, one, kind, numbers)
    top = TOP + len(KINDS) * (HIGH + GAP + TOP)
    parts.append(text(LEFT, top - 22, "Across: input cost, as a share of the cost without a proxy and with an endless window (dashed: 1)."))
    parts.append(text(LEFT, top - 6, "Dotted: the front. Blue: longhaul. Hollow: a way of which not every request fits the window."))
    for at, name in enumerate(names):
        x, y = LEFT + at % 3 * (WIDE + LEFT), top + (at // 3 + 1) * LEGEND
        parts.append(text(x, y, f"{numbers[name]}  {name}", 12, fill=colour(name)))
    return "\n".join([*parts, "</svg>"]) + "\n"
