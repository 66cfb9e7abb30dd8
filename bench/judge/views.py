"""What else could stand for a history: the ways that longhaul is compared with."""

import dataclasses

import sessions

# The sentence of OpenCode and tunacode.
CLEARED = "[Old tool result content cleared]"
# Results that masking keeps.
KEPT_RESULTS = 10
# The literal rule: tokens of the newest results that stay, tokens that clearing has to free, user messages that stay.
PROTECTED, MINIMUM, USER_TURNS = 40_000, 20_000, 2


def units(turns):
    """Turns in groups that stay together: a step of the model with its results, or one other message."""
    found = []
    for turn in turns:
        if turn.role == "tool" and found:
            found[-1].append(turn)
        else:
            found.append([turn])
    return found


def newest(history, size):
    """The system prompt, the first user message and the newest messages, in `size` tokens.

    The oldest step that is kept loses the beginnings of its results, and a first message above half of the size its end, so
    that the sizes are equal."""
    head = [turn for turn in history if turn.role == "system"]
    rest = [turn for turn in history if turn.role != "system"]
    if rest and rest[0].role == "user":
        first = rest.pop(0)
        head.append(dataclasses.replace(first, text=first.text[: int(size / 2 * 4)]))
    left, kept = size - sessions.tokens(head), []
    for unit in reversed(units(rest)):
        kept = (clipped(unit, left) or ([] if kept else unit)) + kept
        left -= sessions.tokens(unit)
        if left <= 0:
            break
    return head + kept


def clipped(unit, size):
    """A unit within a size: its results lose their beginnings. Empty if what is left does not fit."""
    left = size - unit[0].tokens()
    if left < 0:
        return []
    kept = []
    for turn in reversed(unit[1:]):
        end = max(0, int(left * 4))
        kept.insert(0, dataclasses.replace(turn, text=turn.text[-end:] if end else ""))
        left -= turn.tokens()
    return [unit[0], *kept]


def cleared(history, which):
    """The history without the text of the results at the positions `which`."""
    return [dataclasses.replace(turn, text=CLEARED) if at in which else turn for at, turn in enumerate(history)]


def masked(history, _size):
    """All steps, with the last results."""
    results = [at for at, turn in enumerate(history) if turn.role == "tool"]
    return cleared(history, set(results[:-KEPT_RESULTS]))


def literal(history, _size):
    """What the literal rule leaves: replayed before each step, for what was cleared once stays cleared."""
    gone = set()
    for end, turn in enumerate(history):
        if turn.role == "assistant":
            gone |= _fired(history[:end], gone)
    return cleared(history, gone | _fired(history, gone))


def _fired(history, gone):
    users = [at for at, turn in enumerate(history) if turn.role == "user"]
    if len(users) < USER_TURNS:
        return set()
    seen, freed, old = 0, 0, set()
    for at in reversed([at for at, turn in enumerate(history[: users[-USER_TURNS]]) if turn.role == "tool" and at not in gone]):
        seen += history[at].tokens()
        if seen > PROTECTED:
            freed += history[at].tokens()
            old.add(at)
    return old if freed > MINIMUM else set()


def nothing(history, _size):
    """The system prompt, the first user message and the last two messages."""
    head = [turn for turn in history if turn.role == "system"]
    first = [turn for turn in history if turn.role == "user"][:1]
    last = [turn for turn in history[-2:] if turn not in head + first]
    return head + first + last


# Functions of a history and a size in tokens. Masking and the literal rule have sizes of their own.
WAYS = {"newest messages": newest, "masking": masked, "literal rule": literal, "nothing": nothing}
