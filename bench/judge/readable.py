"""What stands for history in ten sessions, as a person reads it, and three counts over it."""

import bisect
import re

import program
import sessions

WINDOW = 32_000
# Judging sessions of the three APIs, by the order of their names: long ones of different repositories and clients.
SESSIONS = (
    "agentv-0422",
    "agentv-0434",
    "context-evaluator-0368",
    "oh-my-posh-0298",
    "mise-76829a52",
    "mise-8916f128",
    "mise-c28f5a69",
    "oh-my-posh-6c0a282a",
    "oh-my-posh-7072595a",
    "skills-fe3ed705",
)
# Words in a row that are neighbours in the history nowhere, from which on they are a list.
RUN = 8
WORD_EDGE = ".,;:!?()[]{}<>\"'`*"
PATH = re.compile(r"[^\s\"'`()\[\]<>,;=]*[\\/][^\s\"'`()\[\]<>,;=]*")
CUT_MARK = re.compile(r"(…|\.\.\.)$")


def standing_in(session, forwarded, end):
    """The texts that stand for history: forwarded messages that the session does not have, results apart."""
    said = {turn.whole() for turn in session.turns(end)}
    return [turn.whole() for turn in sessions.turns(session.api, forwarded) if turn.role != "tool" and turn.whole() not in said]


def words(text):
    """The words of a text, without the punctuation around them."""
    return [word.strip(WORD_EDGE) or word for word in text.split()]


def loose(text, history):
    """The characters of loose words: runs of words on one line that stand next to each other nowhere in the history."""
    known = words(history)
    pairs = set(zip(known, known[1:]))
    count = 0
    for line in text.split("\n"):
        run, last = [], None
        for word in [*words(line), None]:
            if word is None or (last, word) in pairs:
                count += sum(map(len, run)) if len(run) >= RUN else 0
                run = []
            if word is not None:
                run.append(word)
            last = word
    return count


def paths(text, history):
    """The number of paths, and of those that are cut: a longer path of the history goes on where they end."""
    known = sorted({match.group() for match in PATH.finditer(history)})
    complete = set(known)
    whole = cut = 0
    for match in PATH.finditer(text):
        path = CUT_MARK.sub("", match.group())
        if len(path) < 4:
            continue
        whole += 1
        marked = path != match.group()
        at = bisect.bisect_right(known, path)
        longer = known[at] if at < len(known) and known[at].startswith(path) else ""
        if (marked or path not in complete) and longer and (marked or longer[len(path)] not in "\\/.:,"):
            cut += 1
    return whole, cut


class Counts:
    """Sums over what stands for history."""

    def __init__(self):
        self.characters = self.loose = self.paths = self.cut = self.steps = self.kept = self.bodies = 0

    def add(self, session, forwarded, end):
        """Counts one body. Returns the texts that stand for history."""
        before = session.turns(end)
        texts = standing_in(session, forwarded, end)
        history, text = "\n".join(turn.whole() for turn in before), "\n".join(texts)
        found, cut = paths(text, history)
        self.bodies += 1
        self.characters += sum(map(len, words(text)))
        self.loose += loose(text, history)
        self.paths, self.cut = self.paths + found, self.cut + cut
        self.steps += sum(turn.role == "assistant" for turn in before)
        self.kept += sum(turn.role == "assistant" for turn in sessions.turns(session.api, forwarded))
        return texts

    def cells(self):
        """The cells of a row."""
        share = 100 * self.loose / max(1, self.characters)
        return [f"{share:.0f}%", f"{self.cut} of {self.paths}", f"{self.kept} of {self.steps}"]


HEADING = "| | loose words | paths cut | steps kept as messages |\n|---|--:|--:|--:|"


def report(settings, show):
    """Prints the counts, and the texts themselves if `show`."""
    total, rows = Counts(), []
    chosen = sessions.load("judge", names=SESSIONS)
    if len(chosen) != len(SESSIONS):
        raise SystemExit("a session of the readable report is missing")
    for session in chosen:
        with program.Program(WINDOW, settings) as running:
            found = program.stretches(session, running.play(session))
        start, forwarded, steps = found[-1] if len(found) > 1 else (0, [], [])
        if not start:
            continue
        one = Counts()
        texts = one.add(session, forwarded, start)
        total.add(session, forwarded, start)
        rows.append(f"| {session.name} | {' | '.join(one.cells())} |")
        if show:
            print(f"# {session.name}, {len(texts)} texts before step {steps[0][0]}\n\n" + "\n\n".join(texts) + "\n")
    print("\n".join([HEADING, *rows, f"| **all {len(rows)}** | {' | '.join(total.cells())} |"]))
