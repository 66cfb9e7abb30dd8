#!/usr/bin/env python3
"""docs/site.py BOOK: points links of the site that leave docs to the repository, and fails on a link
that leads nowhere.

mdBook leaves a link to a file outside docs as it is, with .html for .md, and no such page is published.
"""
import os
import pathlib
import re
import subprocess
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r'(?P<before><(?:a|img|link|script)\b[^>]*?\b(?:href|src)=")(?P<to>[^"]*)(?P<after>")')


def repository():
    names = ["bash", "-c", '. "$0" && echo "$REPOSITORY"', ROOT / "packaging/names"]
    return subprocess.run(names, check=True, capture_output=True, text=True).stdout.strip()


def in_repository(path):
    """Returns the address of a file or folder of the repository; None if there is none."""
    for found in [path, path.with_suffix(".md")]:
        if (ROOT / found).exists():
            kind = "tree" if (ROOT / found).is_dir() else "blob"
            return f"{repository()}/{kind}/main/{found}"
    return None


def main():
    book = pathlib.Path(sys.argv[1]).resolve()
    # mdBook copies what stands beside the pages.
    for extra in [*book.rglob("*.py"), *book.rglob("book.toml")]:
        extra.unlink()
    dead = []
    for page in sorted(book.rglob("*.html")):
        folder = page.parent.relative_to(book)

        def mended(link):
            address, _, fragment = link["to"].partition("#")
            parts = urllib.parse.urlsplit(address)
            if parts.scheme or parts.netloc or not address:
                return link[0]
            target = pathlib.Path(os.path.normpath(folder / urllib.parse.unquote(parts.path)))
            if (book / target).exists() and target.parts[:1] != ("..",):
                return link[0]
            # Pages are in docs, and the book has docs alone.
            outside = in_repository(pathlib.Path(os.path.normpath("docs" / target)))
            if outside is None:
                dead.append(f"{page.relative_to(book)}: {link['to']}")
                return link[0]
            return link["before"] + outside + ("#" + fragment if fragment else "") + link["after"]

        text = page.read_text()
        new = LINK.sub(mended, text)
        if new != text:
            page.write_text(new)
    if dead:
        sys.exit("links of the site lead nowhere:\n" + "\n".join(dead))


main()
