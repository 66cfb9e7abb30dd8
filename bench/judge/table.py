"""The table of the next-step measure."""

import collections
import random

import steps
import views

# Steps that count as right after a compaction: the first of a stretch.
FRESH = 5
NEWEST = "newest messages"
# Resamples of the bootstrap by session, and the share between the ends of the interval.
RESAMPLES, LEVEL = 1000, 0.95


def loss(pairs):
    """Nats a token above the base, of pairs of results."""
    count = sum(own["n"] for own, _ in pairs)
    return (sum(own["nats"] for own, _ in pairs) - sum(base["nats"] for _, base in pairs)) / count if count else float("nan")


def bounds(groups, figure):
    """The ends of the interval of a figure of lists of results, one list a session, by resampling whole sessions."""
    chance = random.Random(1)
    drawn = sorted(figure(sum((chance.choice(groups) for _ in groups), [])) for _ in range(RESAMPLES))
    edge = int((1 - LEVEL) / 2 * RESAMPLES)
    return drawn[edge], drawn[-edge - 1]


def interval(pairs):
    """The loss of pairs of results with its interval."""
    by_session = collections.defaultdict(list)
    for own, base in pairs:
        by_session[own["sid"]].append((own, base))
    low, high = bounds(list(by_session.values()), loss)
    return f"{loss(pairs):+.3f} ({low:+.3f}, {high:+.3f})"


def render(results):
    """The table of scored steps. The base is the whole history, or the newest messages where no whole history was scored."""
    at = collections.defaultdict(dict)
    for result in results:
        at[result["sid"], result["step"]][result["way"]] = result
    base = steps.WHOLE if any(steps.WHOLE in found for found in at.values()) else NEWEST
    common = [found for found in at.values() if base in found and NEWEST in found]
    fresh = [found for found in common if found[base]["since"] < FRESH]
    lines = [
        f"{len(common)} steps of {len({found[base]['sid'] for found in common})} sessions, {len(fresh)} of them right after a compaction.",
        "Cells after the intervals: all steps / those right after a compaction.",
        "",
        f"| way | tokens | nats a token above the {base} (95%) | right after a compaction (95%) | share of the loss of the {NEWEST} "
        f"| likelier than by the {NEWEST} | far identifiers right |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for way in dict.fromkeys([steps.WHOLE, steps.BASE, *views.WAYS, *(way for found in common for way in found)]):
        parts = [[found for found in part if way in found] for part in (common, fresh)]
        if all(parts):
            lines.append(f"| {way} | {' | '.join(cells(parts, way, base))} |")
    return "\n".join(lines)


def cells(parts, way, base):
    """The cells of a way: of all steps, and of those right after a compaction."""

    def pairs(part, one):
        return [(found[one], found[base]) for found in part]

    def share(part):
        # A share of the loss of the newest messages has a meaning only where they lose something.
        short = loss(pairs(part, NEWEST))
        return f"{100 * loss(pairs(part, way)) / short:.0f}%" if short > 0 else "–"

    def likelier(part):
        return f"{sum(found[way]['nats'] < found[NEWEST]['nats'] for found in part)} of {len(part)}"

    def right(part):
        counts = [found[way]["right"].get("far", [0, 0]) for found in part]
        hits, count = (sum(pair[at] for pair in counts) for at in (0, 1))
        return f"{100 * hits / count:.0f}% of {count}" if count else "–"

    size = sum(found[way]["tokens"] for found in parts[0]) / len(parts[0])
    losses = [interval(pairs(part, way)) for part in parts]
    return [f"{size:,.0f}", *losses, *(" / ".join(cell(part) for part in parts) for cell in (share, likelier, right))]


def standing(rows):
    """What can be said without a model: sizes, and the far identifiers that still stand. A guard, no aim."""
    described = [row for row in rows if "step" in row]
    far = sum(kind == "far" for row in described for kind in row["ids"].values())
    lines = [
        f"{len(described)} steps of {len({row['sid'] for row in described})} sessions, "
        f"{sum(row['since'] < FRESH for row in described)} of them right after a compaction.",
        "",
        f"| way | tokens | far identifiers that stand, of {far} |",
        "|---|--:|--:|",
    ]
    for way in dict.fromkeys(way for row in described for way in row["size"]):
        some = [row for row in described if way in row["size"]]
        size, stand = (sum(row[name][way] for row in some) for name in ("size", "standing"))
        lines.append(f"| {way} | {size / len(some):,.0f} | {100 * stand / max(far, 1):.0f}% |")
    return "\n".join(lines)
