"""The table of the next-step measure."""

import collections
import random

import steps
import views

# Steps that count as right behind a compaction: the first of a stretch.
FRESH = 5
NEWEST = "newest messages"
# Resamples of the bootstrap by session, and the share between the ends of the interval.
RESAMPLES, LEVEL = 1000, 0.95


def loss(pairs):
    """Nats a token above the base, of pairs of results."""
    count = sum(own["n"] for own, _ in pairs)
    return (sum(own["nats"] for own, _ in pairs) - sum(base["nats"] for _, base in pairs)) / count if count else float("nan")


def interval(by_session):
    """The interval of the loss, by resampling whole sessions."""
    chance, groups = random.Random(1), list(by_session.values())
    drawn = sorted(loss(sum((chance.choice(groups) for _ in groups), [])) for _ in range(RESAMPLES))
    edge = int((1 - LEVEL) / 2 * RESAMPLES)
    return drawn[edge], drawn[-edge - 1]


def render(results):
    """The table of scored steps. The base is the whole history, or the newest messages where no whole history was scored."""
    at = collections.defaultdict(dict)
    for result in results:
        at[result["sid"], result["step"]][result["way"]] = result
    base = steps.WHOLE if any(steps.WHOLE in found for found in at.values()) else NEWEST
    common = {name: found for name, found in at.items() if base in found and NEWEST in found}
    ways = list(dict.fromkeys([steps.WHOLE, steps.BASE, *views.WAYS, *(way for found in common.values() for way in found)]))
    fresh = sum(found[base]["since"] < FRESH for found in common.values())
    lines = [
        f"{len(common)} steps of {len({name for name, _ in common})} sessions, {fresh} of them right behind a compaction.",
        "",
        f"| way | tokens | nats a token above the {base} (95% by session) | right behind a compaction | beside {NEWEST} | "
        f"likelier than by {NEWEST} | right behind a compaction | far identifiers right |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    of = {way: [(found[way], found[base], found[NEWEST]) for found in common.values() if way in found] for way in ways}
    newest = {kind: loss(pairs_of(of[NEWEST], kind)) for kind in (False, True)}
    for way in ways:
        if of[way]:
            lines.append(f"| {way} | {' | '.join(cells(of[way], newest))} |")
    return "\n".join(lines)


def pairs_of(found, only_fresh):
    """Pairs of a result and its base; `only_fresh`: right behind a compaction."""
    return [(own, base) for own, base, _ in found if not only_fresh or own["since"] < FRESH]


def cells(found, newest):
    """The cells of a way."""
    by_session = collections.defaultdict(list)
    for own, base, _ in found:
        by_session[own["sid"]].append((own, base))
    low, high = interval(by_session)
    every, fresh = loss(pairs_of(found, False)), loss(pairs_of(found, True))

    def likelier(only_fresh):
        won = [own["nats"] < short["nats"] for own, _, short in found if not only_fresh or own["since"] < FRESH]
        return f"{sum(won)} of {len(won)}"

    right = [sum(own["right"].get("far", [0, 0])[at] for own, _, _ in found) for at in (0, 1)]
    # A share of the loss of the newest messages has a meaning only where they lose something.
    share = " / ".join(f"{100 * own / short:.0f}%" if short > 0 else "–" for own, short in ((every, newest[False]), (fresh, newest[True])))
    return [
        f"{sum(own['tokens'] for own, _, _ in found) / len(found):,.0f}",
        f"{every:+.3f} ({low:+.3f}, {high:+.3f})",
        f"{fresh:+.3f}",
        share,
        likelier(False),
        likelier(True),
        f"{100 * right[0] / right[1]:.0f}% of {right[1]}" if right[1] else "–",
    ]


def standing(rows):
    """What can be said without a model: sizes, and the far identifiers that still stand. A guard, no aim."""
    described = [row for row in rows if "step" in row]
    far = sum(kind == "far" for row in described for kind in row["ids"].values())
    lines = [
        f"{len(described)} steps of {len({row['sid'] for row in described})} sessions, "
        f"{sum(row['since'] < FRESH for row in described)} of them right behind a compaction.",
        "",
        f"| way | tokens | far identifiers that stand, of {far} |",
        "|---|--:|--:|",
    ]
    for way in dict.fromkeys(way for row in described for way in row["size"]):
        some = [row for row in described if way in row["size"]]
        size, stand = (sum(row[name][way] for row in some) for name in ("size", "standing"))
        lines.append(f"| {way} | {size / len(some):,.0f} | {100 * stand / max(far, 1):.0f}% |")
    return "\n".join(lines)
