"""The arena: python3 bench/arena replays recorded sessions through ways of compacting, and compares cost and fidelity.

README.md says what each figure means. Settings of longhaul come from the environment, its binary from LONGHAUL."""

import argparse
import concurrent.futures
import json
import os
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "judge")]

import cache  # noqa: E402
import figures  # noqa: E402
import peers  # noqa: E402
import picture  # noqa: E402
import replay  # noqa: E402
import sessions  # noqa: E402
import steps  # noqa: E402
import table  # noqa: E402
import ways  # noqa: E402

WINDOWS = (32_000, 64_000, 128_000)
# Sessions of each API at a window.
LIMIT = 3


def picked(apis, window, limit, part):
    """At most `limit` sessions of each API that are long enough for a window, evenly spread, with their numbers."""
    for api in apis:
        found = [one for one in sessions.load(part, api) if sessions.tokens(one.turns()) >= replay.LEAST * window]
        spread = found if len(found) <= limit else [found[int((at + 0.5) * len(found) / limit)] for at in range(limit)]
        yield from enumerate(spread)


def jobs(options, known):
    """What is to be played: sessions, and the ways whose results are not known yet."""
    every = {way.name: way for way in peers.all_ways()}
    chosen = [every[name] for name in options.ways.split(",")] if options.ways else list(every.values())
    base = every.get(figures.BASE) if any(way.name == figures.BASE for way in chosen) else None
    apis = [api for api in sessions.Api if not options.api or api.title in options.api]
    for window in options.window or WINDOWS:
        for number, session in picked(apis, window, options.limit, options.part):

            def is_new(way, mode, session=session, window=window):
                return (window, session.api.title, session.name, way.name, mode) not in known

            own = [way for way in chosen if is_new(way, "own") and session.api in way.apis]
            sized = [way for way in chosen if base and way.fit and is_new(way, "equal") and session.api in way.apis]
            if own or sized:
                yield session, number, window, own, base, sized


def named(job):
    """A job in a form that another process can read: ways are named."""
    session, number, window, own, base, sized = job
    return session, number, window, [way.name for way in own], base and base.name, [way.name for way in sized]


def work(job):
    """Plays a job of `named`."""
    every = {way.name: way for way in peers.all_ways()}
    session, number, window, own, base, sized = job
    return replay.play((session, number, window, [every[name] for name in own], every.get(base), [every[name] for name in sized]))


def key(row):
    """What a result is of."""
    return tuple(row[name] for name in ("window", "api", "session", "way", "mode"))


def play(options):
    """Plays what is not known yet, and writes the results, the table and the picture."""
    folder = pathlib.Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "results.jsonl"
    if options.afresh:
        file.unlink(missing_ok=True)
    known = {key(row) for row in figures.read(file)}
    todo = [named(job) for job in jobs(options, known)]
    with file.open("a") as out, concurrent.futures.ProcessPoolExecutor(options.processes) as pool:
        for number, done in enumerate(concurrent.futures.as_completed([pool.submit(work, job) for job in todo]), 1):
            for row in done.result():
                if key(row) not in known:
                    known.add(key(row))
                    out.write(json.dumps(row) + "\n")
            out.flush()
            print(f"{number} of {len(todo)} sessions", file=sys.stderr, flush=True)
    report(options)


def report(options):
    """Writes and prints the table of the results that a folder has, and draws the picture."""
    folder = pathlib.Path(options.out)
    scores = figures.read(pathlib.Path(options.scores)) if options.scores else []
    notes = {way.name: way.note for way in peers.all_ways()}
    # A way whose package has gone since has no note.
    results = [row for row in figures.read(folder / "results.jsonl") if row["way"] in notes]
    found = figures.summary(results, list(notes), scores)
    found["prices"] = {api.title: {"model": name, **vars(cache.price(name, host))} for api, (name, host) in cache.MODELS.items()}
    found["sources"] = figures.sources({(row["api"], row["session"]) for row in found["results"]})
    (folder / "arena.json").write_text(json.dumps(found, indent=1) + "\n")
    (folder / "arena.svg").write_text(picture.draw(found))
    text = figures.render(found, notes)
    if scores:
        text += f"\n\n### The next step, by a model\n\n{table.render(scores)}"
    (folder / "arena.md").write_text(text + "\n")
    print(text)


def prompts(options):
    """Writes the prompts of the next-step measure for the ways that can be given a size: `bench/judge` scores them."""
    scale = steps.SCALES[options.scale]
    fits = {way.name: ways.ByText(way.fit) for way in peers.all_ways() if way.fit and way.name not in steps.views.WAYS}
    named = [steps.BASE, steps.WHOLE, "newest messages", "frugal", "standard", *fits]
    programs = {steps.BASE: peers.settings() | {"LONGHAUL_PROFILE": figures.BASE}}
    programs |= {profile: peers.settings() | {"LONGHAUL_PROFILE": profile} for profile in ("frugal", "standard")}
    window = options.window[0] if options.window else scale["window"]
    rows = steps.prepare(
        options.prompts, window, scale["to"], scale["stretches"], named, programs, options.part, min(options.limit, scale["limit"]), fits
    )
    print(table.standing(rows))


def packages(_):
    """Prints the packages of the peers, each with the folder of its environment."""
    print("\n".join(f"{name} {package}" for name, package in peers.PACKAGES.items()))


def check(_):
    """Runs the arena's own tests."""
    found = unittest.defaultTestLoader.discover(str(HERE), pattern="check.py")
    raise SystemExit(not unittest.TextTestRunner().run(found).wasSuccessful())


def main():
    parser = argparse.ArgumentParser(prog="bench/arena", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", nargs="?", choices=("play", "report", "prompts", "peers", "check"), default="play")
    parser.add_argument("--window", type=int, action="append", help=f"windows in tokens; by default {WINDOWS}")
    parser.add_argument("--api", action="append", choices=[api.title for api in sessions.Api])
    parser.add_argument("--ways", help="names of ways, with commas between them; by default all that are installed")
    parser.add_argument("--limit", type=int, default=LIMIT, help="sessions of each API at a window")
    parser.add_argument("--part", choices=("judge", "build", "all"), default="judge", help="judge: sessions that no choice has seen")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--out", default=str(peers.KEPT / "results"), help="folder of results. A run that was stopped goes on")
    parser.add_argument("--afresh", action="store_true", help="forget the results that the folder has")
    parser.add_argument("--prompts", default=str(peers.KEPT / "prompts.jsonl.gz"), help="file that `prompts` writes")
    parser.add_argument("--scale", choices=steps.SCALES, default="large", help="of `prompts`; large: windows of 32,000; small: of 9,000")
    parser.add_argument("--scores", help="scores of the prompts by a model: adds the columns of the next step")
    options = parser.parse_args()
    {"play": play, "report": report, "prompts": prompts, "peers": packages, "check": check}[options.command](options)


if __name__ == "__main__":
    main()
