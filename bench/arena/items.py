"""Items of a conversation in the form of their API: their sizes, their groups, and the texts of their results."""

import json

import program
import sessions
from sessions import CHAT, RESPONSES


# What is known of an item, by its identity. The item is kept with it, so that no other item takes its place.
KNOWN = {}


def forget():
    """Forgets all items, so that a long run needs no more memory than its largest session."""
    KNOWN.clear()


def remembered(measure):
    """A function of an item that is computed once."""

    def known(item):
        found = KNOWN.get((measure, id(item)))
        if found is None:
            found = KNOWN[measure, id(item)] = (item, measure(item))
        return found[1]

    return known


@remembered
def written(item):
    """An item as JSON, without its cache marks."""
    text = json.dumps(item, ensure_ascii=False)
    return json.dumps(program.unmarked(item), ensure_ascii=False) if '"cache_control"' in text else text


@remembered
def tokens(item):
    """The tokens of an item: four bytes of JSON each."""
    return (len(written(item).encode()) + 1) / 4


def size(items):
    """The tokens of items."""
    return sum(map(tokens, items))


def answers_call(api, item):
    """Whether an item answers a call."""
    if api is CHAT:
        return item["role"] == "tool"
    if api is RESPONSES:
        return item.get("type", "message").endswith("_output")
    return isinstance(item["content"], list) and any(block["type"] == "tool_result" for block in item["content"])


def units(api, items):
    """Items in groups that stay together: a step of the model with its results, or one other item."""
    found, answered = [], True
    for item in items:
        if sessions.by_model(api, item):
            if answered:
                found.append([])
            found[-1].append(item)
            answered = False
        elif answers_call(api, item) and found:
            found[-1].append(item)
            answered = True
        else:
            found.append([item])
            answered = True
    return found


def head_length(session):
    """The number of items before the model's first step."""
    steps = session.steps()
    return steps[0][0] if steps else len(session.items)


def edited(api, item, edit):
    """An item whose results have the texts that `edit` makes of theirs. An item without results is returned as it is."""
    if not answers_call(api, item):
        return item
    if api is CHAT:
        return {**item, "content": edit(sessions.text_of(item["content"]))}
    if api is RESPONSES:
        return {**item, "output": edit(sessions.text_of(item["output"]))} if "output" in item else item
    blocks = [
        {**block, "content": edit(sessions.text_of(block.get("content")))} if block["type"] == "tool_result" else block
        for block in item["content"]
    ]
    return {**item, "content": blocks}


def user(api, text):
    """A message of the user."""
    if api is CHAT:
        return {"role": "user", "content": text}
    if api is RESPONSES:
        return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
    return {"role": "user", "content": [{"type": "text", "text": text}]}
