"""Ways that run in this process: what each forwards of a session, request by request, and at a given size.

`none`, masking and the cuts are the ways of `bench/judge/views.py` over the items of the APIs, so that a provider could answer them."""

import dataclasses
import functools
import time

import items
import program
import rules
import sessions
import views

# A cut in steps happens when the room is full. It leaves what stands before the first step, and this share of the rest.
LEFT = 0.5
# A sliding cut leaves this share of the window, as LiteLLM's `trim_messages` does.
SLIDING = 0.75


# The size of a text is sought up to so many times its size in JSON, by so many halvings.
BYTES, HALVINGS = 4, 7


@dataclasses.dataclass
class Request:
    """A request that a way forwards: the step that answers it, its body, the seconds of the way, and its own calls to a model."""

    step: tuple
    body: dict
    seconds: float
    calls: list = dataclasses.field(default_factory=list)


def newest(session, end, size):
    """All before the first step, and the newest units. The oldest unit that is kept loses the beginnings of its results."""
    head = session.items[: items.head_length(session)]
    return head + last_units(session.api, session.items[len(head) : end], size - items.size(head))


def last_units(api, some, size):
    """The newest units in `size` tokens, at least one."""
    kept = []
    for unit in reversed(items.units(api, some)):
        took = items.size(unit)
        if took > size:
            unit = clipped(api, unit, size) or ([] if kept else unit)
        kept = unit + kept
        size -= took
        if size <= 0:
            break
    return kept


def clipped(api, unit, size, ends=False):
    """A unit within a size: its results lose their beginnings or their ends, the oldest first. Empty if the rest does not fit."""
    over, found = items.size(unit) - size, []
    for item in unit:
        if over > 0 and items.answers_call(api, item):
            before = items.size([item])
            drop = int(over * 4)
            item = items.edited(api, item, lambda text, drop=drop: text[: max(0, len(text) - drop)] if ends else text[drop:])
            over -= before - items.size([item])
        found.append(item)
    return found if over < size * 0.05 else []


def head_and_tail(session, end, size):
    """All before the first step, the oldest units in half of the rest, and the newest in the other half.

    The last of the oldest units loses the ends of its results."""
    start = items.head_length(session)
    head, rest = session.items[:start], session.items[start:end]
    half, first = (size - items.size(head)) / 2, []
    for unit in items.units(session.api, rest):
        left = half - items.size(first)
        if items.size(unit) > left:
            first += clipped(session.api, unit, left, ends=True)
            break
        first += unit
    tail = last_units(session.api, rest[len(first) :], size - items.size(head) - items.size(first))
    return head + first + tail


def cleared(session, end, keep):
    """All items, with the texts of the last `keep` results."""
    answers = [at for at, item in enumerate(session.items[:end]) if items.answers_call(session.api, item)]
    gone = set(answers[: len(answers) - keep])
    clear = clearing(session.api)
    return [clear(item) if at in gone else item for at, item in enumerate(session.items[:end])]


@functools.cache
def clearing(api):
    """A function that clears the results of an item of an API."""
    return items.remembered(lambda item: items.edited(api, item, lambda _: views.CLEARED))


def masked(session, end, size):
    """Masking with as many results as a size allows."""
    low, high = 0, sum(items.answers_call(session.api, item) for item in session.items[:end])
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if items.size(cleared(session, end, middle)) <= size else (low, middle - 1)
    return cleared(session, end, low)


@dataclasses.dataclass
class ByText:
    """A way whose size is that of the text alone, as a model is given it, and not that of all JSON."""

    fit: object

    def __call__(self, session, end, size):
        low, high, best = 0.0, BYTES * size, None
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            found = self.fit(session, end, middle)
            if sessions.tokens(sessions.turns(session.api, found)) <= size:
                low, best = middle, found
            else:
                high = middle
        return best or self.fit(session, end, low)


def room(session, window):
    """The tokens that a window leaves to the items of a session."""
    return rules.room(window) - items.size([program.wished(session, window) | {session.api.member: []}])


def whole(session, _window):
    """The whole history."""
    for step in session.steps():
        yield step, session.items[: step[0]]


def ten_results(session, _window):
    """Masking as it was published: the last ten results, at every request."""
    for step in session.steps():
        yield step, cleared(session, step[0], views.KEPT_RESULTS)


def tens_of_results(session, _window):
    """Masking whose border moves once ten more results stand, so that caches hold between."""
    for step in session.steps():
        count = sum(items.answers_call(session.api, item) for item in session.items[: step[0]])
        yield step, cleared(session, step[0], views.KEPT_RESULTS + count % views.KEPT_RESULTS)


def sliding(fit):
    """A cut at every request above its share of the window."""

    def play(session, window):
        most = SLIDING * window - (rules.room(window) - room(session, window))
        for step in session.steps():
            history = session.items[: step[0]]
            yield step, history if items.size(history) <= most else fit(session, step[0], most)

    return play


def in_steps(fit):
    """A cut when the room is full, to a share of it. What is forwarded grows until the next cut, so that caches hold."""

    def play(session, window):
        most, head = room(session, window), items.size(session.items[: items.head_length(session)])
        base, size, start = [], 0.0, 0
        for step in session.steps():
            new = session.items[start : step[0]]
            base, size, start = base + new, size + items.size(new), step[0]
            if size > most:
                base = fit(session, start, head + LEFT * (most - head))
                size = items.size(base)
            yield step, base

    return play


class Way:
    """A way: what it forwards at its own size, and, if it can be given one, at a size."""

    def __init__(self, name, play, fit=None, apis=tuple(sessions.Api), note=""):
        self.name, self.play, self.fit, self.apis, self.note = name, play, fit, apis, note

    def requests(self, session, window):
        """The requests of a session, of a copy with the items that the way forwards."""
        body, moments = program.wished(session, window), self.play(session, window)
        while True:
            began = time.perf_counter()
            found = next(moments, None)
            if found is None:
                return
            yield Request(found[0], body | {session.api.member: found[1]}, time.perf_counter() - began)


LOCAL = [
    Way("none", whole, note="every message, an endless window"),
    Way("newest messages (sliding)", sliding(newest), note="cut at every request to three quarters of the window"),
    Way("newest messages (in steps)", in_steps(newest), newest, note="cut to half when the room is full"),
    Way("head and tail", in_steps(head_and_tail), head_and_tail, note="the same, half of it from the beginning"),
    Way("masking", ten_results, masked, note="all steps, the text of the last ten results; may exceed the window"),
    Way("masking (in steps)", tens_of_results, note="the same, of the last ten to nineteen"),
]
