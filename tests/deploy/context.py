"""context.py BINARY: what .dockerignore lets through is enough to build BINARY from."""

import json
import subprocess
import sys
from pathlib import Path


def main(binary: Path) -> None:
    rules = [line for line in Path(".dockerignore").read_text().splitlines() if line]
    rules = [rule for rule in rules if not rule.startswith("#")]
    sent = {path for path in run("git", "ls-files", "-z").split("\0") if reaches(path, rules)}
    needed = {"Cargo.lock", "Cargo.toml"} | benches() | compiled(binary)
    missing = sorted(needed - sent)
    if missing:
        sys.exit(f".dockerignore keeps out what a build needs: {' '.join(missing)}")
    print(f"the image's build: is sent the {len(needed)} files that it needs")


def reaches(path: str, rules: list[str]) -> bool:
    """Whether Docker's builder is sent `path`: the last rule that matches decides."""
    sent = True
    for rule in rules:
        name = rule.removeprefix("!")
        if name == "*" or path == name or path.startswith(f"{name}/"):
            sent = rule.startswith("!")
    return sent


def benches() -> set[str]:
    """Cargo looks for those that the manifest gives no path, whatever is built."""
    package = json.loads(run("cargo", "metadata", "--locked", "--no-deps", "--format-version=1"))
    targets = package["packages"][0]["targets"]
    return {relative(target["src_path"]) for target in targets if target["kind"] == ["bench"]}


def compiled(binary: Path) -> set[str]:
    """From the compiler's own list beside the binary: one line, in the syntax of Make."""
    listed = binary.with_name(f"{binary.name}.d")
    if not listed.exists():
        print(f"{binary.name} is not built here: which files are compiled into it is not known")
        return set()
    _, files = listed.read_text().splitlines()[0].split(": ", 1)
    return {relative(file) for file in files.split()}


def relative(path: str) -> str:
    # A member's path to a file of the workspace has `..` in it.
    return str(Path(path).resolve().relative_to(Path.cwd()))


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main(Path(sys.argv[1]))
