"""Identifiers of a text: paths, names, URLs, hashes and numbers. The program's own index shares no code with this file."""

import re

FORMS = re.compile(
    r"""https?://[^\s"'<>)\]}`]{6,200}
    |[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}
    |(?:[A-Za-z]:)?[\\/~.]{0,3}(?:[\w.@+-]+[\\/])+[\w.@+-]+
    |[A-Za-z0-9_$\#-]+(?:\.[A-Za-z0-9_-]+)+
    |[A-Za-z_\#][A-Za-z0-9_]*(?:[-_][A-Za-z0-9_]+)*
    |\d{4,}""",
    re.X,
)
MIXED_CASE = re.compile(r"[a-z][A-Z]|[A-Z]{2,}[a-z]")
LETTER, DIGIT = re.compile(r"[A-Za-z]"), re.compile(r"\d")
SEPARATOR = re.compile(r"[\\/]")


def of(text):
    """The identifiers of a text. The last part of a path is one of its own."""
    found = set()
    for match in FORMS.finditer(text):
        word = match.group().rstrip(".,:;-#")
        found.update(part for part in (word, SEPARATOR.split(word)[-1]) if is_one(part))
    return found


def is_one(word):
    """Whether a word is no ordinary word."""
    if not 5 <= len(word) <= 200 or "REDACTED" in word or "example.com" in word:
        return False
    if SEPARATOR.search(word):
        return len(word) >= 7 and bool(re.search("[A-Za-z]{2}", word))
    if word.isdigit():
        return True
    if re.fullmatch("[0-9a-f]{7,40}", word):
        return bool(DIGIT.search(word) and re.search("[a-f]", word))
    if "." in word:
        return bool(LETTER.search(word)) and not re.fullmatch(r"[a-z]+\.[a-z]{1,2}", word)
    if "_" in word.strip("_"):
        return len(word) >= 6
    if DIGIT.search(word) and LETTER.search(word):
        return len(word) >= 6
    return len(word) >= 6 and bool(MIXED_CASE.search(word))
