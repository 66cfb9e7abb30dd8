"""The figures of the arena: sums over sessions, intervals by session, the front, and the tables."""

import json

import sessions
import steps
import table

# A way that answers fewer requests than this share does not hold the window, and is on no front.
HOLDS = 0.99
# Figures that have an interval, in the order of the table.
ESTIMATED = ("cost", "rules", "far")
# The way whose sizes the others take at equal size.
BASE = "auto"
# Ways of the judge under their names here.
BASES = {steps.BASE: BASE, steps.WHOLE: "none"}
MODES = {"own": "At its own size", "equal": "At the size of `auto`"}


def read(file):
    """The results of a file of JSON lines."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def ratio(above, below):
    """A share, of nothing none."""
    return above / below if below else None


def measured(rows):
    """The figures of results of one way."""

    def total(name, at=None):
        return sum(row[name] if at is None else row[name][at] for row in rows)

    return {
        "cost": ratio(total("dollars"), total("unchanged")),
        "breaks": ratio(total("breaks"), len(rows)),
        "tokens": ratio(total("tokens"), total("requests")),
        "rules": ratio(total("rules", 0), total("rules", 1)),
        "far": ratio(total("far", 0), total("far", 1)),
        "fit": ratio(total("fit"), total("of")),
        "invalid": total("invalid"),
        "milliseconds": ratio(1000 * total("seconds"), total("requests")),
        "requests": total("requests"),
        "sessions": len(rows),
        "broken": sorted({name for row in rows for name in row["broken"]}),
    }


def with_intervals(rows):
    """The figures of a way, with the ends of the interval of each estimate."""
    found = measured(rows)
    for name in ESTIMATED:
        if found[name] is not None:
            found[f"{name}_interval"] = table.bounds([[row] for row in rows], lambda some, name=name: measured(some)[name] or 0)
    return found


def front(ways, fidelity):
    """The names of the ways that hold the window, and that no other one beats or equals in both cost and fidelity."""
    held = {name: one for name, one in ways.items() if one["fit"] >= HOLDS and one[fidelity] is not None}

    def beats(other, one):
        as_good = other["cost"] <= one["cost"] and other[fidelity] >= one[fidelity]
        return as_good and (other["cost"] < one["cost"] or other[fidelity] > one[fidelity])

    return sorted(name for name, one in held.items() if not any(beats(other, one) for other in held.values()))


def grouped(rows):
    """Results by window, mode and way. The way that sets the sizes stands among those of equal size as well."""
    found = {}
    for row in rows:
        found.setdefault((row["window"], row["mode"]), {}).setdefault(row["way"], []).append(row)
    for (window, mode), ways in found.items():
        if mode == "equal" and BASE in found.get((window, "own"), {}):
            ways[BASE] = found[window, "own"][BASE]
    return found


def summary(rows, order, scores=()):
    """All figures as JSON. `order` has the names of the ways in the order of the tables."""
    tables = []
    for (window, mode), ways in sorted(grouped(rows).items(), key=lambda one: (one[0][0], one[0][1] != "own")):
        figures = {way: with_intervals(some) for way, some in ways.items()}
        fronts = {name: front(figures, name) for name in ("rules", "far")}
        names = sorted({f"{row['api']}/{row['session']}" for some in ways.values() for row in some})
        tables.append({"window": window, "mode": mode, "sessions": names, "ways": figures, "front": fronts})
    return {"order": order, "tables": tables, "scores": scored(scores), "results": rows}


def scored(rows):
    """What a model says of each way: its loss against the whole history in nats a token, with the interval."""
    found = {}
    for row in rows:
        found.setdefault((row["sid"], row["step"]), {})[row["way"]] = row
    complete = [one for one in found.values() if steps.WHOLE in one]
    losses = {}
    for way in dict.fromkeys(row["way"] for row in rows):
        by_session = {}
        for one in complete:
            if way in one:
                by_session.setdefault(one[way]["sid"], []).append((one[way], one[steps.WHOLE]))
        if by_session:
            groups = list(by_session.values())
            losses[BASES.get(way, way)] = {"nats": table.loss(sum(groups, [])), "nats_interval": table.bounds(groups, table.loss)}
    return losses


def sources(played):
    """The source and the licence of each session, of pairs of its API and its name, as the manifests state them."""
    found = {}
    for api in sessions.Api:
        manifest = sessions.FIXTURES / api.folder / "MANIFEST.tsv"
        for line in manifest.read_text().splitlines()[1:]:
            name, source, licence = line.split("\t")[:3]
            name = name.removesuffix(".json.gz")
            if (api.title, name) in played:
                found[f"{api.title}/{name}"] = {"source": source, "licence": licence}
    return found


def percent(one, name):
    """A share with its interval."""
    if one[name] is None:
        return "–"
    low, high = one[f"{name}_interval"]
    return f"{100 * one[name]:.0f}% ({100 * low:.0f}, {100 * high:.0f})"


def cost(one):
    """The cost with its interval."""
    return f"{one['cost']:.2f} ({one['cost_interval'][0]:.2f}, {one['cost_interval'][1]:.2f})"


# Columns of the tables: a title, and the cell of a way.
COLUMNS = {
    "input cost (95%)": cost,
    "breaks a session": lambda one: f"{one['breaks']:.1f}",
    "tokens a request": lambda one: f"{one['tokens']:,.0f}",
    "rules that stand (95%)": lambda one: percent(one, "rules"),
    "far identifiers (95%)": lambda one: percent(one, "far"),
    "requests that fit": lambda one: f"{100 * one['fit']:.0f}%",
    "invalid": lambda one: f"{one['invalid']}" + (f" ({', '.join(one['broken'])})" if one["invalid"] else ""),
    "ms a request": lambda one: f"{one['milliseconds']:.1f}",
}
# At equal size, the moments of the breaks are those of another way, and times are those of a library call.
EQUAL = [title for title in COLUMNS if title not in ("breaks a session", "ms a request")]


def render_table(one, order):
    """A table of one window and mode, its ways in an order."""
    titles = list(COLUMNS) if one["mode"] == "own" else EQUAL
    count = len(one["sessions"])
    lines = [
        f"### {MODES[one['mode']]}, window of {one['window']:,}",
        "",
        f"{count} sessions. Bold: on the front of cost and rules; *: on the front of cost and far identifiers.",
        "",
        f"| way | {' | '.join(titles)} |",
        "|---|" + "--:|" * len(titles),
    ]
    for name in sorted(one["ways"], key=order.index):
        figures = one["ways"][name]
        shown = f"**{name}**" if name in one["front"]["rules"] else name
        shown += " *" if name in one["front"]["far"] else ""
        shown += f" ({figures['sessions']} of {count})" if figures["sessions"] < count else ""
        lines.append(f"| {shown} | {' | '.join(COLUMNS[title](figures) for title in titles)} |")
    return "\n".join(lines)


def overview(found):
    """One table of all windows at their own sizes: cost, rules that stand and far identifiers, without intervals."""
    tables = [one for one in found["tables"] if one["mode"] == "own"]
    sizes = ", ".join(f"{len(one['sessions'])} at {one['window']:,}" for one in tables)
    lines = [
        "### Input cost, rules that stand, far identifiers",
        "",
        f"Sessions: {sizes}. Bold: on the front of cost and rules; *: on the front of cost and far identifiers; †: not all requests fit.",
        "",
        "| way | " + " | ".join(f"{one['window']:,}" for one in tables) + " |",
        "|---|" + "--:|" * len(tables),
    ]
    for name in found["order"]:
        cells = [cell(one, name) for one in tables]
        if any(cells):
            lines.append(f"| {name} | {' | '.join(text or '–' for text in cells)} |")
    return "\n".join(lines)


def cell(one, name):
    """The figures of a way at a window: cost · rules · far identifiers. None where the way did not run."""
    way = one["ways"].get(name)
    if way is None:
        return None
    shares = [f"{100 * way[kind]:.0f}%" if way[kind] is not None else "–" for kind in ("rules", "far")]
    shares[0] = f"**{shares[0]}**" if name in one["front"]["rules"] else shares[0]
    shares[1] += "*" if name in one["front"]["far"] else ""
    return f"{way['cost']:.2f}{'' if way['fit'] >= HOLDS else '†'} · {shares[0]} · {shares[1]}"


def render(found, notes):
    """All tables, and what each way is."""
    parts = [overview(found), *(render_table(one, found["order"]) for one in found["tables"])]
    parts.append("### Ways\n\n" + "\n".join(f"- {name}: {note}." for name, note in notes.items()))
    return "\n\n".join(parts)
