"""Plays a session through ways, request by request, and measures each."""

import collections
import dataclasses

import cache
import identifiers
import items
import planting
import program
import rules
import sessions
import steps
import validity
import ways

# A session counts from this many windows on, and is played up to this many.
LEAST, MOST = 1.25, 3
# An identifier of a step is far if it was last seen further back than this share of the window.
FAR = 0.5
# Rules are looked for at these shares of the requests.
MOMENTS = (0.4, 0.6, 0.8, 1.0)


@dataclasses.dataclass
class Case:
    """A session with planted rules at a window, and what is to be found in its requests."""

    session: sessions.Session
    window: int
    planted: list
    far: dict  # The far identifiers of each step.
    moments: dict  # The planted rules that were said before a step, of the steps at which rules are looked for.
    base: dict = dataclasses.field(default_factory=dict)  # The input of each request as the client sends it.
    sizes: list = dataclasses.field(default_factory=list)  # Of the way that sets the sizes: step, tokens, whether it breaks.


def counts(one):
    """Whether a planted text is a rule that has to stand."""
    return one.row != "stranger" and (one.row != "file" or one.fits)


def prepare(session, number, window):
    """The case of a session. `number` rotates the texts of its rules."""
    session = session.cut(MOST * window)
    planted = []
    for plan in rules.PLANS:
        session, some = planting.plant(session, number, plan)
        planted += some
    if session.api is sessions.MESSAGES:
        # The recordings have lost the marks of all requests but the last, so each request asks for the automatic mark.
        session = dataclasses.replace(session, body=session.body | {"cache_control": {"type": "ephemeral"}})
    all_steps = session.steps()
    asked = [all_steps[max(0, int(len(all_steps) * share) - 1)] for share in MOMENTS]
    moments = {}
    for step in asked:
        history = session.turns(step[0])
        moments[step] = sum(map(counts, rules.judge(planted, history, history, window)))
    return Case(session, window, planted, far_of(session, window), moments)


def far_of(session, window):
    """The identifiers of each step that were last seen further back than the newest half of a window."""
    texts = [plain(session.api, item) for item in session.items]
    ends = [0]
    for text in texts:
        ends.append(ends[-1] + len(text) + 1)
    whole, found = "\n".join(texts), {}
    for step in session.steps():
        seen = ends[step[0]]
        words = sorted(identifiers.of(steps.step_text(steps.target(session, step))))
        places = {word: whole.rfind(word, 0, seen) for word in words}
        found[step] = [word for word, at in places.items() if 0 <= at < seen - FAR * window * cache.CHARACTERS]
    return found


def plain(api, item):
    """The text of an item as a model reads it."""
    return "\n".join(turn.whole() for turn in sessions.turns(api, [item]))


class Measure:
    """What a way does with a case."""

    def __init__(self, case, way, mode):
        self.case, self.way, self.mode = case, way, mode
        self.cache, self.price = cache.of(case.session.api), cache.price(*cache.MODELS[case.session.api])
        self.input, self.base, self.calls = cache.Input(), cache.Input(), cache.Input()
        self.last, self.head, self.texts = None, None, {}
        self.requests = self.fit = self.breaks = self.far = self.rules = self.invalid = 0
        self.tokens = self.seconds = 0.0
        self.broken = collections.Counter()

    def add(self, request):
        """Counts a request. Returns whether it breaks the prefix of the one before."""
        case, api = self.case, self.case.session.api
        some = request.body[api.member]
        written = [items.written(item) for item in some]
        taken = self.cache.take(request.body, written)
        self.input += taken
        if self.way == "none":
            case.base[request.step] = taken
        self.base += case.base[request.step]
        for call in request.calls:
            self.calls += cache.Input(program.size(call))
        breaks = self.last is not None and written[: len(self.last)] != self.last
        self.last = written
        if self.head is None:
            self.head = items.size([request.body | {api.member: []}])
        size = items.size(some) + self.head
        self.requests += 1
        self.fit += size <= case.window
        self.breaks += breaks
        self.tokens += size
        self.seconds += request.seconds
        broken = validity.broken(api, request.body)
        self.invalid += bool(broken)
        self.broken.update(broken)
        self.find(request, some, written)
        return breaks

    def find(self, request, some, written):
        """Looks for far identifiers and rules in what is forwarded."""
        case, api = self.case, self.case.session.api
        if case.far[request.step]:
            for text, item in zip(written, some):
                if text not in self.texts:
                    self.texts[text] = plain(api, item)
            whole = "\n".join(self.texts[text] for text in written)
            self.far += sum(word in whole for word in case.far[request.step])
        if request.step in case.moments:
            history, after = case.session.turns(request.step[0]), sessions.turns(api, some)
            self.rules += sum(counts(one) and one.stands for one in rules.judge(case.planted, history, after, case.window))

    def result(self):
        """The figures of a session, as JSON."""
        case = self.case
        return {
            "window": case.window,
            "api": case.session.api.title,
            "session": case.session.name,
            "way": self.way,
            "mode": self.mode,
            "requests": self.requests,
            "of": len(case.session.steps()),
            "fit": self.fit,
            "breaks": self.breaks,
            "tokens": round(self.tokens),
            "input": {name: round(value) for name, value in vars(self.input + self.calls).items()},
            "dollars": (self.input + self.calls).dollars(self.price),
            "unchanged": self.base.dollars(self.price),
            "far": [self.far, sum(map(len, case.far.values()))],
            "rules": [self.rules, sum(case.moments.values())],
            "invalid": self.invalid,
            "broken": dict(self.broken),
            "seconds": self.seconds,
        }


def own(case, way, sets_sizes=False):
    """Plays a case through a way at its own size."""
    measure = Measure(case, way.name, "own")
    for request in way.requests(case.session, case.window):
        breaks = measure.add(request)
        if sets_sizes:
            case.sizes.append((request.step, items.size(request.body[case.session.api.member]), breaks))
    return measure.result()


def views(case, fit):
    """What stands for the history where the way that sets the sizes broke: of each step, items of that size and what came since."""
    base, start = [], 0
    for step, size, breaks in case.sizes:
        base, start = base + case.session.items[start : step[0]], step[0]
        if breaks:
            base = fit(case.session, start, size)
        yield step, base


def equal(case, way):
    """Plays a case through a way at the sizes of another."""
    sized = ways.Way(way.name, lambda session, window: views(case, way.fit))
    measure = Measure(case, way.name, "equal")
    for request in sized.requests(case.session, case.window):
        measure.add(request)
    return measure.result()


def play(job):
    """The results of ways for a session at a window. `base` sets the sizes of the ways in `sized`."""
    session, number, window, chosen, base, sized = job
    case = prepare(session, number, window)
    results = [own(case, next(way for way in ways.LOCAL if way.name == "none"))]
    if base and (sized or base in chosen):
        results.append(own(case, base, sets_sizes=True))
    results += [own(case, way) for way in chosen if way is not base and way.name != "none" and session.api in way.apis]
    results += [equal(case, way) for way in sized if session.api in way.apis]
    items.forget()
    return results
