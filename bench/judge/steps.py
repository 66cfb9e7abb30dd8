"""Prompts for the next-step measure: each step that an agent took, after its history and after what could stand for it."""

import gzip
import json

import identifiers
import program
import sessions
import views
import workers

# A session counts from this many windows on.
LEAST = 1.25
# A step has at least this many characters. Shorter ones, such as "Done.", say nothing about the history.
SHORTEST = 30
# A stretch between two compactions has at least this many scored steps.
STEPS = 3
# The way that everything is sized by: longhaul as it is configured.
BASE = "longhaul"
WHOLE = "whole history"
# In histories up to 14,000 tokens, the literal rule clears nothing.
SMALL_WAYS = [BASE, WHOLE, *(way for way in views.WAYS if way != "literal rule")]
# The window, the longest history, and the ways of a run: with a GPU, and on two cores with the small model.
SCALES = {
    "large": {"window": 32_000, "to": 110_000, "stretches": 2, "limit": 1_000, "ways": [BASE, WHOLE, *views.WAYS]},
    "small": {"window": 9_000, "to": 14_000, "stretches": 1, "limit": 12, "ways": SMALL_WAYS},
}


def calls(turn):
    """The calls of a turn in the form of Qwen's template."""

    def arguments(text):
        return text if text.lstrip().startswith("{") else json.dumps(text, ensure_ascii=False)

    form = '\n<tool_call>\n{{"name": {}, "arguments": {}}}\n</tool_call>'
    return "".join(form.format(json.dumps(name), arguments(text)) for name, text in turn.calls)


def step_text(turn):
    """What the model wrote in a turn: reasoning, text and calls."""
    thought = f"<think>\n{turn.thought}\n</think>\n" if turn.thought else ""
    return (thought + turn.text + calls(turn)).strip("\n")


def render(turn):
    """A turn in the form of Qwen's template: what comes before its text, the text, and what comes after it."""
    if turn.role == "tool":
        return ["<|im_start|>user\n<tool_response>\n", turn.text, "\n</tool_response><|im_end|>\n"]
    return [f"<|im_start|>{turn.role}\n", step_text(turn), "<|im_end|>\n"]


class Stretch:
    """Steps between two compactions: one pass of a model over the last prompt scores all of them."""

    def __init__(self, session, start, view):
        self.session, self.start, self.parts, self.targets, self.end = session, start, [render(turn) for turn in view], [], start

    def add(self, step):
        """Goes on to the end of a step, and scores the step."""
        start, end = step
        between = sessions.turns(self.session.api, self.session.items[self.end : start])
        self.parts += [render(turn) for turn in between]
        self.targets.append([len(self.parts), start])
        self.parts += [render(turn) for turn in sessions.turns(self.session.api, self.session.items[start:end])]
        self.end = end

    def text(self):
        """All text in front of the last scored step."""
        return "\n".join(text for _, text, _ in self.parts[: self.targets[-1][0]])


def target(session, step):
    """The turn of a step."""
    return sessions.turns(session.api, session.items[step[0] : step[1]])[0]


def stretches_of(session, window, settings):
    """The stretches of a session after its first compaction."""
    with program.Program(window, settings) as running:
        return [one for one in program.stretches(session, running.play(session)) if one[1] != session.items[: one[0]]]


def chosen(session, found, most):
    """At most `most` stretches with enough steps to score, evenly spread, each with the steps to score."""
    scored = [(one, [step for step in one[2] if len(step_text(target(session, step))) >= SHORTEST]) for one in found]
    scored = [(one, steps) for one, steps in scored if len(steps) >= STEPS]
    if len(scored) > most:
        scored = [scored[int((at + 0.5) * len(scored) / most)] for at in range(most)]
    return scored


def of_session(job):
    """The rows of a session: one for each pass of a model, and one for each step."""
    session, window, most, ways, settings = job
    if window < 32_000:
        session = session.with_short_head()
    session = session.cut(settings["to"])
    if sessions.tokens(session.turns()) < LEAST * window:
        return []
    found = {name: stretches_of(session, window, env) for name, env in settings["programs"].items()}
    head = sessions.head_turns(session.api, session.body)
    rows, steps = [], {}
    for (start, items, all_steps), scored in chosen(session, found[BASE], most):
        history, base = session.turns(start), head + sessions.turns(session.api, items)
        size = sessions.tokens(base)
        short = views.newest(history, size)
        for step in scored:
            near = short + sessions.turns(session.api, session.items[start : step[0]])
            steps[step] = described(session, step, all_steps.index(step), near)
        passes = [(BASE, start, base, scored)]
        passes += [(name, start, way(history, size), scored) for name, way in views.WAYS.items()]
        for name, fit in settings["fits"].items():
            passes.append((name, start, head + sessions.turns(session.api, fit(session, start, size)), scored))
        for name in list(found)[1:]:  # Another setting breaks elsewhere, and has stretches of its own.
            for (own, view), inside in by_stretch(found[name], scored):
                passes.append((name, own, head + sessions.turns(session.api, view), inside))
        rows += [passed(session, *one, steps) for one in passes if one[0] in ways]
    if steps and WHOLE in ways:
        rows.append(passed(session, WHOLE, 0, head, sorted(steps), steps))
    return rows + list(steps.values())


def by_stretch(found, scored):
    """The steps of each stretch, with its beginning and view. Steps before the first compaction have the whole history."""
    groups = {}
    for step in scored:
        start, view = next(((at, view) for at, view, inside in found if step in inside), (0, []))
        groups.setdefault(start, ((start, view), []))[1].append(step)
    return groups.values()


def described(session, step, since, near):
    """A step: what the agent wrote, and which of its identifiers the newest messages lack."""
    text = step_text(target(session, step))
    before, shown = ("\n".join(render(turn)[1] for turn in some) for some in (session.turns(step[0]), near))
    kinds = {word: "new" if word not in before else "near" if word in shown else "far" for word in sorted(identifiers.of(text))}
    return {"sid": key(session), "step": step[0], "since": since, "target": text, "ids": kinds, "standing": {}, "size": {}}


def passed(session, way, start, view, scored, steps):
    """The row of a pass. Notes in each step which far identifiers stand in front of it, and how long the prompt is."""
    stretch = Stretch(session, start, view)
    for step in scored:
        stretch.add(step)
        text = stretch.text()
        steps[step]["standing"][way] = sum(kind == "far" and word in text for word, kind in steps[step]["ids"].items())
        steps[step]["size"][way] = len(text) // 4
    return {"sid": key(session), "way": way, "parts": stretch.parts, "targets": stretch.targets}


def key(session):
    """The name of a session among all APIs."""
    return f"{session.api.title}/{session.name}"


def prepare(file, window, to, most, ways, programs, part, limit, fits=None):
    """Writes the rows of all sessions, at most `limit` of each API, to a file.

    `fits` has further ways by name: functions of a session, a number of items and a size in tokens."""
    jobs = []
    for api in sessions.Api:
        found = [one for one in sessions.load(part, api) if sessions.tokens(one.turns()) >= LEAST * window]
        picked = found if len(found) <= limit else [found[int((at + 0.5) * len(found) / limit)] for at in range(limit)]
        jobs += [(at, (one, window, most, ways, {"to": to, "programs": programs, "fits": fits or {}})) for at, one in enumerate(picked)]
    # The APIs take turns, so that a run of the model that is stopped has seen all of them.
    rows = workers.each(of_session, [job for _, job in sorted(jobs, key=lambda job: job[0])])
    # Without a time in its head, the file of the same prompts has the same bytes.
    with open(file, "wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as out:
        for of_one in rows:
            out.writelines(f"{json.dumps(row)}\n".encode() for row in of_one)
    return [row for of_one in rows for row in of_one]
