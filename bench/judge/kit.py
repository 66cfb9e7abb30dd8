"""What `compaction-conformance-kit` finds: canaries and probes that nobody of this project wrote."""

import collections

import planting
import program
import rules
import sessions

try:
    from compaction_kit.corpus import build_random_session
    from compaction_kit.probes import BehaviorProbe
    from compaction_kit.semantic_corpus import build_semantic_heldout_session, build_semantic_session
    from compaction_kit.versioning import kit_version
except ImportError:
    raise SystemExit("the kit is not installed: pip install compaction-conformance-kit") from None

SEEDS = range(1, 13)
# The kit's user turns stand among the first steps of a session, up to this share.
SPREAD = 0.8


def spread(session, turns):
    """A session among whose steps the kit's messages of the user stand, in their order."""
    starts = [start for start, _ in session.steps()][1:]
    said = [turn.text for turn in turns if turn.role == "user"]
    last = max(1, int(SPREAD * len(starts)))
    by_place = collections.defaultdict(list)
    for at, text in enumerate(said):
        by_place[starts[at * last // len(said)]].append(text)
    planter = planting.Planter(session.api, 0)
    return planting.inserted(session, {at: planter.user("\n".join(texts)) for at, texts in by_place.items()})


def hosts(window):
    """Judging sessions into which the kit's messages go, of all APIs in turn."""
    found = []
    for api in sessions.Api:
        some = [one if window >= rules.LONG_HEAD else one.with_short_head() for one in sessions.load("judge", api)]
        found.append([one.cut(rules.MOST * window) for one in some if sessions.tokens(one.turns()) >= 4 * window][: len(SEEDS) // 3])
    return [one for row in zip(*found) for one in row]


def after_last_break(session, turns, running, caller):
    """The text that is forwarded right after the last compaction."""
    found = rules.last_break(spread(session, turns), running, caller)
    return "\n".join(turn.whole() for turn in sessions.turns(session.api, found[1])).lower() if found else None


class Tally:
    """Counts at one window."""

    def __init__(self):
        self.types = collections.defaultdict(list)
        self.latest, self.stale, self.resolved, self.pairs = [], [], [], []

    def random(self, canaries, text):
        """Counts a randomized session."""
        for canary in canaries:
            self.types[canary.type.value].append(BehaviorProbe().probe(canary, text).survived)
            if canary.superseded_tokens:
                self.update(canary, text, self.latest)

    def semantic(self, canaries, meta, text):
        """Counts a session with paraphrased updates and with pairs that only look alike."""
        by_id = {canary.id: canary for canary in canaries}
        for one in meta["conflicts"]:
            self.update(by_id[one], text, self.resolved)
        pairs = [[BehaviorProbe().probe(by_id[one], text).survived for one in pair] for pair in meta["distinct_pairs"]]
        self.pairs += [all(pair) for pair in pairs]

    def update(self, canary, text, held):
        """Whether the latest value stands, and whether the old one does."""
        held.append(all(token.lower() in text for token in canary.required_tokens))
        self.stale.append(any(token.lower() in text for token in canary.superseded_tokens))


def report(settings):
    """Prints survival by the kit's types right after the last compaction."""
    tallies = {}
    for window in rules.WINDOWS:
        tally = tallies[window] = Tally()
        with program.Program(window, settings) as running:
            for seed, session in zip(SEEDS, hosts(window)):
                story, canaries = build_random_session(seed)
                text = after_last_break(session, story.transcript(), running, f"{seed}-random")
                if text is not None:
                    tally.random(canaries, text)
                for name, build in (("built", build_semantic_session), ("held", build_semantic_heldout_session)):
                    story, canaries, meta = build(seed)
                    text = after_last_break(session, story.transcript(), running, f"{seed}-{name}")
                    if text is not None:
                        tally.semantic(canaries, meta, text)
    print(f"compaction-conformance-kit {kit_version()}, seeds {SEEDS[0]} to {SEEDS[-1]}\n")
    print("| | " + " | ".join(f"{window:,}" for window in rules.WINDOWS) + " |\n|---|" + "--:|" * len(rules.WINDOWS))
    rows = {name: lambda tally, name=name: tally.types[name] for name in tallies[rules.WINDOWS[0]].types}
    rows |= {
        "re-stated updates: latest value held": lambda tally: tally.latest,
        "paraphrased updates: latest value held": lambda tally: tally.resolved,
        "updates: old value still stands": lambda tally: tally.stale,
        "pairs that only look alike: both held": lambda tally: tally.pairs,
    }
    for name, found in rows.items():
        print(f"| {name} | " + " | ".join(rules.share(found(tally)) for tally in tallies.values()) + " |")
