"""The judge of compaction: python3 bench/judge COMMAND. README.md says what each figure means.

Settings of the program come from the environment: LONGHAUL_PROFILE=frugal python3 bench/judge rules."""

import argparse
import json
import os
import pathlib
import unittest

import readable
import reasoning
import rules
import steps
import table


def settings():
    """The settings that the environment gives."""
    return {name: value for name, value in os.environ.items() if name.startswith("LONGHAUL_")}


def others(texts):
    """Further settings, each as NAME:SETTING=VALUE,SETTING=VALUE."""
    named = (text.partition(":") for text in texts)
    return {name: dict(one.split("=", 1) for one in rest.split(",")) for name, _, rest in named}


def prepare(options):
    """Writes prompts, and prints what can be said without a model."""
    scale, also = steps.SCALES[options.scale], others(options.also)
    programs = {steps.BASE: settings(), **{name: settings() | more for name, more in also.items()}}
    chosen = (options.ways.split(",") if options.ways else scale["ways"]) + list(also)
    rows = steps.prepare(
        options.prompts,
        options.window or scale["window"],
        options.to or scale["to"],
        scale["stretches"],
        chosen,
        programs,
        options.part,
        scale["limit"],
    )
    print(table.standing(rows))


def score(options):
    """Scores prompts with a model."""
    import score as scoring

    scoring.run(pathlib.Path(options.model), options.prompts, options.scores, options.device, options.seconds)


def show(options):
    """Prints the table of scores."""
    with open(options.scores) as lines:
        print(table.render([json.loads(line) for line in lines]))


def check(_):
    """Runs the judge's own tests."""
    found = unittest.defaultTestLoader.discover(str(pathlib.Path(__file__).parent), pattern="check.py")
    raise SystemExit(not unittest.TextTestRunner().run(found).wasSuccessful())


def kit(_):
    """Prints what the conformance kit finds."""
    import kit as conformance

    conformance.report(settings())


def main():
    parser = argparse.ArgumentParser(prog="bench/judge", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name, does, about):
        added = commands.add_parser(name, help=about)
        added.set_defaults(does=does)
        added.add_argument(
            "--part", choices=("judge", "build", "all"), default="judge", help="sessions; judge: those that no choice has seen"
        )
        return added

    command("check", check, "the judge's own tests")
    command("kit", kit, "canaries of compaction-conformance-kit")
    command("rules", lambda options: rules.report(settings(), options.part), "planted rules that stand")
    command("reasoning", lambda options: reasoning.report(settings(), options.part), "reasoning lost under models that bind it")
    added = command(
        "readable", lambda options: readable.report(settings(), options.show), "counts over what stands for history in ten sessions"
    )
    added.add_argument("--show", action="store_true", help="print what stands for history")
    added = command("steps", prepare, "prompts for the model, and their sizes")
    added.add_argument("prompts", help="file to write: JSON lines, compressed")
    added.add_argument("--scale", choices=steps.SCALES, default="large", help="large: windows of 32,000; small: of 9,000")
    added.add_argument("--window", type=int)
    added.add_argument("--to", type=int, help="longest history, in tokens")
    added.add_argument("--ways", help="ways to score, with commas between them")
    added.add_argument("--also", action="append", default=[], help="NAME:LONGHAUL_PROFILE=frugal,...: further settings")
    added = command("score", score, "scores of prompts by a model")
    added.add_argument("model", help="a GGUF file of Qwen2.5-Coder")
    added.add_argument("prompts")
    added.add_argument("scores", help="file to write: JSON lines. A run that was stopped goes on")
    added.add_argument("--device", default="cpu", help="cpu or cuda")
    added.add_argument("--seconds", type=float, default=1e9, help="no further session begins after this time")
    added = command("table", show, "table of scores")
    added.add_argument("scores")
    options = parser.parse_args()
    options.does(options)


main()
