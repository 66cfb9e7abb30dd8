"""Counts planted rules that stand whole in one message of what is forwarded right after the last compaction."""

import collections
import dataclasses
import itertools

import planting
import program
import readable
import sessions
import workers

WINDOWS = (32_000, 16_000, 8_000)
# Below this window, a session has a short head: recorded heads take up to 12,000 tokens.
LONG_HEAD = 32_000
# A session is played up to this many windows, and counts if it has at least two.
MOST, LEAST = 5, 2
PLANS = ("said", "heard")
# Each session is played with this many choices of texts and forms.
CHOICES = 4


def room(window):
    """What the window leaves to the conversation: all but the reserve for the reply."""
    return window - min(window // 8, 16_384)


def file_budget(window):
    """The size of a file of rules that is to fit: 5% of the room from 32,000 tokens up, 10% at 8,000, linear between."""
    share = 0.05 + 0.05 * min(max((32_000 - window) / 24_000, 0), 1)
    return share * room(window)


def plain(text):
    """A text with single spaces."""
    return " ".join(text.split())


@dataclasses.dataclass
class Seen:
    """What became of one planted text."""

    row: str
    kind: str
    stands: bool
    fits: bool
    old_stands: bool = False
    is_named: bool = False


def judge(planted, before, after, window):
    """Compares what was planted before a request with the turns that were forwarded. Texts said later do not count."""
    said = [plain(turn.whole()) for turn in before]
    messages = [(turn.role, plain(turn.whole())) for turn in after]
    lines = [line.lower() for turn in after for line in turn.whole().split("\n")]
    seen = []
    for one in planted:
        text = plain(one.text)
        if not any(text in message for message in said):
            continue
        # A stranger's rule inside a result is data; anywhere else it has become a rule.
        stands = any(text in message for role, message in messages if one.row != "stranger" or role != "tool")
        found = Seen(one.row, one.kind, stands, one.tokens <= file_budget(window))
        if one.old:
            found.old_stands = any(plain(one.old) in message for _, message in messages)
            marks = planting.TEXTS["replaced"]
            found.is_named = any(one.value.lower() in line and any(mark in line for mark in marks) for line in lines)
        seen.append(found)
    return seen


def last_break(session, running, caller):
    """The last body that does not extend the one before, and the number of items that it stands for."""
    found = program.stretches(session, running.play(session, caller))
    return found[-1][:2] if len(found) > 1 else None


def play(job):
    """Plays sessions of one API at one window. Returns what was seen, and the sizes of what stands for history."""
    api, window, settings, part = job
    seen, sizes = [], []
    with program.Program(window, settings) as running:
        for number, session in enumerate(sessions.load(part, api)):
            session = (session if window >= LONG_HEAD else session.with_short_head()).cut(MOST * window)
            if sessions.tokens(session.turns()) < LEAST * window:
                continue
            for choice, plan in itertools.product(range(CHOICES), PLANS):
                changed, planted = planting.plant(session, number + choice, plan)
                found = last_break(changed, running, f"{session.name}-{plan}-{choice}")
                if found is None:
                    continue
                end, forwarded = found
                after = sessions.turns(api, forwarded)
                seen += judge(planted, changed.turns(end), after, window)
                standing = sum(map(len, readable.standing_in(changed, forwarded, end))) / 4
                sizes.append((standing, sessions.tokens(after)))
    return (api, window), seen, sizes


def share(found):
    """A cell: percent, and of how many."""
    return f"{100 * sum(found) / len(found):.0f}% of {len(found)}" if found else "–"


# Rows of the report: a title, and what counts in it.
ROWS = [
    ("said by the user", lambda it: it.row in ("said", "correction")),
    *[(f"– {place}", lambda it, place=place: it.row == "said" and it.kind.startswith(place)) for place in planting.PLACES],
    *[(f"– {form}", lambda it, form=form: it.row == "said" and it.kind.endswith(form)) for form in ("alone", "in prose", "after a log")],
    ("the user's words in results", lambda it: it.row == "answer"),
    *[(f"– {kind}", lambda it, kind=kind: it.row == "answer" and it.kind == kind) for kind in planting.ANSWERS],
    ("files of rules that a tool read, of those that fit", lambda it: it.row == "file" and it.fits),
    ("decisions and plans approved", lambda it: it.row == "decision"),
]


def table(found):
    """The report of one API or of all: a row for each kind, a column for each window."""
    seen, sizes = collections.defaultdict(list), collections.defaultdict(list)
    for (_, window), some, more in found:
        seen[window] += some
        sizes[window] += more
    lines = ["| | " + " | ".join(f"{window:,}" for window in WINDOWS) + " |", "|---|" + "--:|" * len(WINDOWS)]

    def row(title, cell):
        lines.append(f"| {title} | " + " | ".join(cell(window) for window in WINDOWS) + " |")

    for title, counts in ROWS:
        row(title, lambda window, counts=counts: share([it.stands for it in seen[window] if counts(it)]))

    def old(window):
        pairs = [it for it in seen[window] if it.row == "correction"]
        return f"{sum(it.old_stands and not it.is_named for it in pairs)} of {len(pairs)}"

    def stranger(window):
        rules = [it.stands for it in seen[window] if it.row == "stranger"]
        return f"{sum(rules)} of {len(rules)}"

    def mean(window, at):
        return f"{sum(size[at] for size in sizes[window]) / max(1, len(sizes[window])):,.0f}"

    row("old version stands and is not named as replaced", old)
    row("stranger's rule stated as a rule", stranger)
    row("tokens that stand for history, mean", lambda window: mean(window, 0))
    row("tokens forwarded, mean", lambda window: mean(window, 1))
    row("sessions played", lambda window: str(len(sizes[window])))
    return "\n".join(lines)


def report(settings, part):
    """Prints the table of all APIs, then one of each."""
    jobs = [(api, window, settings, part) for api in sessions.Api for window in WINDOWS]
    found = workers.each(play, jobs)
    print(f"### All three APIs\n\n{table(found)}")
    for api in sessions.Api:
        print(f"\n### {api.title}\n\n{table([one for one in found if one[0][0] is api])}")
