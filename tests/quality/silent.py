"""Picks resolved calls of ours on which the oracle is silent, and prints them with their source for judging by hand.

Run it as `PYTHONPATH=tests python -m quality.silent --truth DIR --ours DIR --sources DIR [--seed N] [--count N]`. The
same seed gives the same calls as long as truth and graph do.
"""

import argparse
import random
from collections.abc import Iterable, Mapping
from pathlib import Path

from quality.compare import Answer, Place, oracle_answers, our_answers, read_json
from quality.pins import DEFAULT_CACHE, load

Pick = tuple[str, Place, Answer]


def silent_calls(
    package: str, files: Iterable[str], oracle: Mapping[Place, Answer], ours: Mapping[Place, Answer | None]
) -> list[Pick]:
    """Our calls into registered packages, in files that the oracle read, at places where it has no answer."""
    read = set(files)
    return [
        (package, place, answer)
        for place, answer in sorted(ours.items(), key=lambda item: item[0])
        if answer is not None and answer.package and place[0] in read and place not in oracle
    ]


def pick(candidates: Iterable[Pick], count: int, seed: int) -> list[Pick]:
    """A seeded choice that does not depend on the order of the candidates; sorted for reading."""
    ordered = sorted(candidates, key=lambda item: (item[0], item[1], item[2].target))
    return sorted(random.Random(seed).sample(ordered, min(count, len(ordered))), key=lambda item: (item[0], item[1]))


def context(source: bytes, line: int, around: int) -> str:
    """Lines about a place, the place marked."""
    lines = source.decode(errors="replace").split("\n")
    first, last = max(1, line - around), min(len(lines), line + around)
    return "\n".join(f"{'>' if at == line else ' '}{at:>6} {lines[at - 1]}" for at in range(first, last + 1))


def main(arguments: list[str] | None = None) -> int:
    """Print the calls to judge."""
    parser = argparse.ArgumentParser(description="calls of ours on which the oracle is silent")
    parser.add_argument("--truth", type=Path, default=DEFAULT_CACHE / "truth")
    parser.add_argument("--ours", type=Path, default=DEFAULT_CACHE / "ours")
    parser.add_argument("--sources", type=Path, default=DEFAULT_CACHE / "src")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=4)
    parser.add_argument("--around", type=int, default=4, help="lines of context before and after")
    options = parser.parse_args(arguments)
    names = [name for name in load().packages if (options.truth / f"{name}.json").exists()]
    truths = {name: read_json(options.truth / f"{name}.json") for name in names}
    modules = {module: name for name, truth in truths.items() for module in truth["modules"]}
    candidates: list[Pick] = []
    for name, truth in truths.items():
        path = options.ours / f"{name}.json"
        if path.exists():
            ours = our_answers(read_json(path), modules)
            candidates += silent_calls(name, truth["files"], oracle_answers(truth, ()), ours)
    for number, (name, (file, line, col), answer) in enumerate(pick(candidates, options.count, options.seed), 1):
        kind = "inside" if answer.package == name else f"into {answer.package}"
        print(f"--- {number}. {name} {file}:{line}:{col} => {answer.target} ({kind})")
        print(context((options.sources / name / file).read_bytes(), line, options.around))
    print(f"{len(candidates)} calls of ours have no answer of the oracle")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
