"""Compares our graph with the oracle's truth, call by call.

Run it as `PYTHONPATH=tests python -m quality.compare --truth DIR --ours DIR [--json FILE] [--list N]`, where DIR holds
one `<package>.json` each: the truth that `quality.oracle` made, and `knowing export --format json` of the same package
registered as its own repository beside all others.

A place is (file, line, column of the callee's identifier). Definitions of the numbers:

* recall: of the oracle's calls, the part at whose place we have a `calls` edge that is resolved to the oracle's target;
* precision: of the places where we resolve a call to a registered package and the oracle answers too, the part that
  agrees. The oracle's answers outside of the registered packages (the standard library) count here: reaching a
  registered function where the oracle knows `dict.get` is wrong;
* a class and its `__init__` (or `__new__`) are one target; two different targets of ours at one place are no answer,
  neither right for recall nor counted for precision.

Cross-package calls are the oracle's calls into another registered package for recall, and ours into another registered
package for precision; inside calls likewise. A pair counts the calls of one caller into one callee.
"""

import argparse
import json
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quality.pins import DEFAULT_CACHE, HERE, load

ERRORS_FILE = HERE / "oracle_errors.toml"

Place = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Answer:
    """A target and the package that owns it; the package is empty outside of the registered ones."""

    target: str
    package: str


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where the two do not agree; `ours` is None for a plain miss."""

    package: str
    file: str
    line: int
    col: int
    oracle: str
    ours: str | None


@dataclass(slots=True)
class Score:
    """Counts of one group of calls."""

    oracle: int = 0
    found: int = 0
    answered: int = 0
    right: int = 0
    misses: list[Difference] = field(default_factory=list)
    wrong: list[Difference] = field(default_factory=list)

    @property
    def recall(self) -> float | None:
        """Part of the oracle's calls that we have, None where it has none."""
        return self.found / self.oracle if self.oracle else None

    @property
    def precision(self) -> float | None:
        """Part of our judged answers that are right, None where none can be judged."""
        return self.right / self.answered if self.answered else None

    def numbers(self) -> dict[str, int | float | None]:
        """For machines."""
        return {
            "oracle": self.oracle,
            "found": self.found,
            "recall": self.recall,
            "answered": self.answered,
            "right": self.right,
            "precision": self.precision,
        }


@dataclass(slots=True)
class Report:
    """All groups: `cross` and `inside` in total, by calling package, and cross by pair."""

    cross: Score = field(default_factory=Score)
    inside: Score = field(default_factory=Score)
    cross_by_caller: dict[str, Score] = field(default_factory=lambda: defaultdict(Score))
    inside_by_caller: dict[str, Score] = field(default_factory=lambda: defaultdict(Score))
    pairs: dict[tuple[str, str], Score] = field(default_factory=lambda: defaultdict(Score))


@dataclass(frozen=True, slots=True)
class OracleError:
    """A place where reading the code shows that the oracle is wrong; line 0 means every line of the file."""

    package: str
    file: str
    line: int
    target: str


def canonical(target: str) -> str:
    """A class and its constructor are one target."""
    for constructor in (".__init__", ".__new__"):
        target = target.removesuffix(constructor)
    return target


def load_errors(path: Path = ERRORS_FILE) -> set[OracleError]:
    """The oracle's known errors; each must give its reason."""
    found = set()
    for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("error", []):
        if not str(entry.get("reason", "")).strip():
            raise ValueError(f"{path.name}: {entry['package']} {entry['file']}:{entry['line']} has no reason")
        found.add(OracleError(entry["package"], entry["file"], entry["line"], canonical(entry["target"])))
    return found


def oracle_answers(truth: Mapping[str, Any], errors: Iterable[OracleError]) -> dict[Place, Answer]:
    """Place => the oracle's answer, its known errors left out."""
    package = truth["package"]
    bad = {(error.file, error.line, error.target) for error in errors if error.package == package}
    found = {}
    for call in truth["calls"]:
        target = canonical(call["target"])
        if not {(call["file"], call["line"], target), (call["file"], 0, target)} & bad:
            found[call["file"], call["line"], call["col"]] = Answer(target, call["target_package"])
    return found


def our_answers(export: Mapping[str, Any], modules: Mapping[str, str]) -> dict[Place, Answer | None]:
    """Place => our one answer; None where we give several. `modules` says which package owns a module."""
    targets: dict[Place, set[str]] = defaultdict(set)
    for edge in export["edges"]:
        if edge["type"] != "calls" or not edge.get("resolved"):
            continue
        name = edge["resolved"].get("canonical")
        if name:
            for site in edge["sites"]:
                targets[site["file"], site["line"], site["col"]].add(canonical(name))
    return {
        place: Answer(next(iter(names)), owner(next(iter(names)), modules)) if len(names) == 1 else None
        for place, names in targets.items()
    }


def owner(target: str, modules: Mapping[str, str]) -> str:
    """The registered package that publishes the longest module prefix of a dotted name, or nothing."""
    parts = target.split(".")
    for cut in range(len(parts), 0, -1):
        package = modules.get(".".join(parts[:cut]))
        if package:
            return package
    return ""


def compare(
    package: str,
    oracle: Mapping[Place, Answer],
    ours: Mapping[Place, Answer | None],
    report: Report,
    pairs: Iterable[tuple[str, str]],
) -> None:
    """Add one calling package to the report."""
    counted = set(pairs)

    def groups(callee: str) -> list[Score]:
        if callee == package:
            return [report.inside, report.inside_by_caller[package]]
        scores = [report.cross, report.cross_by_caller[package]]
        return [*scores, report.pairs[package, callee]] if (package, callee) in counted else scores

    for place, truth in sorted(oracle.items()):
        if not truth.package:
            continue
        answer = ours.get(place)
        hit = answer is not None and answer.target == truth.target
        for score in groups(truth.package):
            score.oracle += 1
            score.found += hit
            if not hit:
                said = "several targets" if place in ours and answer is None else answer.target if answer else None
                score.misses.append(Difference(package, *place, truth.target, said))
    for place, answer in sorted(ours.items(), key=lambda item: item[0]):
        if answer is None or not answer.package or place not in oracle:
            continue
        agrees = oracle[place].target == answer.target
        for score in groups(answer.package):
            score.answered += 1
            score.right += agrees
            if not agrees:
                score.wrong.append(Difference(package, *place, oracle[place].target, answer.target))


def worst(report: Report, at_least: int) -> tuple[str, Score] | None:
    """The calling package with the lowest cross-package recall among those with enough calls to say so."""
    able = [(name, score) for name, score in report.cross_by_caller.items() if score.oracle >= at_least]
    return min(able, key=lambda item: (item[1].recall or 0.0, item[0]), default=None)


def mean_recall(report: Report, at_least: int) -> float | None:
    """Cross-package recall with every calling package of enough calls weighing the same."""
    able = [score for score in report.cross_by_caller.values() if score.oracle >= max(1, at_least)]
    return sum(score.found / score.oracle for score in able) / len(able) if able else None


def _percent(value: float | None) -> str:
    return "     -" if value is None else f"{value:6.1%}"


def _row(name: str, score: Score) -> str:
    return f"{name:<36}{score.oracle:>8}{_percent(score.recall):>9}{score.answered:>9}{_percent(score.precision):>10}"


def render(report: Report, listed: int, at_least: int) -> str:
    """For people: the tables, then the first differences of each kind with their places."""
    head = f"{'calls':<36}{'oracle':>8}{'recall':>9}{'judged':>9}{'precision':>10}"
    lines = [head, *(_row(f"{a} -> {b}", score) for (a, b), score in sorted(report.pairs.items())), ""]
    lines += [_row(f"{name} -> others", score) for name, score in sorted(report.cross_by_caller.items())]
    lines += ["", *(_row(f"inside {name}", score) for name, score in sorted(report.inside_by_caller.items()))]
    lines += ["", _row("cross-package, all", report.cross), _row("inside packages, all", report.inside)]
    low = worst(report, at_least)
    if low:
        lines.append(_row(f"worst caller: {low[0]}", low[1]))
        lines.append(f"{'mean over callers':<44}{_percent(mean_recall(report, at_least)):>9}")
    for title, score in (("cross-package", report.cross), ("inside", report.inside)):
        for kind, items in (("wrong", score.wrong), ("misses", score.misses)):
            if listed and items:
                lines += ["", f"{title} {kind}: {len(items)}"]
                lines += [
                    f"  {item.package} {item.file}:{item.line}:{item.col} oracle {item.oracle}, ours {item.ours or '-'}"
                    for item in items[:listed]
                ]
    return "\n".join(lines)


def as_json(report: Report, at_least: int) -> dict[str, Any]:
    """For machines: every number, and every difference."""

    def rows(items: list[Difference]) -> list[dict[str, Any]]:
        return [{name: getattr(item, name) for name in Difference.__slots__} for item in items]

    low = worst(report, at_least)
    return {
        "cross": report.cross.numbers(),
        "inside": report.inside.numbers(),
        "mean_recall_of_callers": mean_recall(report, at_least),
        "worst_caller": {"package": low[0], **low[1].numbers()} if low else None,
        "pairs": [{"caller": a, "callee": b, **score.numbers()} for (a, b), score in sorted(report.pairs.items())],
        "callers": {name: score.numbers() for name, score in sorted(report.cross_by_caller.items())},
        "inside_callers": {name: score.numbers() for name, score in sorted(report.inside_by_caller.items())},
        "cross_wrong": rows(report.cross.wrong),
        "cross_misses": rows(report.cross.misses),
        "inside_wrong": rows(report.inside.wrong),
        "inside_misses": rows(report.inside.misses),
    }


def read_json(path: Path) -> Any:
    """One JSON document."""
    return json.loads(path.read_text(encoding="utf-8"))


def measure(
    truth_directory: Path, ours_directory: Path, packages: Iterable[str], pairs: Iterable[tuple[str, str]]
) -> Report:
    """Compare every package that has both files; a package without ours counts as all missed."""
    truths = {name: read_json(truth_directory / f"{name}.json") for name in packages}
    modules = {module: name for name, truth in truths.items() for module in truth["modules"]}
    errors, counted, report = load_errors(), tuple(pairs), Report()
    for name, truth in truths.items():
        path = ours_directory / f"{name}.json"
        ours = our_answers(read_json(path), modules) if path.exists() else {}
        compare(name, oracle_answers(truth, errors), ours, report, counted)
    return report


def main(arguments: list[str] | None = None) -> int:
    """Print the comparison; exit 1 if a required number is not reached."""
    parser = argparse.ArgumentParser(description="compare our graph with the oracle's truth")
    parser.add_argument("packages", nargs="*", help="default: all pinned packages that have a truth file")
    parser.add_argument("--truth", type=Path, default=DEFAULT_CACHE / "truth")
    parser.add_argument("--ours", type=Path, default=DEFAULT_CACHE / "ours")
    parser.add_argument("--json", type=Path, help="write all numbers and differences here")
    parser.add_argument("--list", type=int, default=20, help="differences of each kind to print")
    parser.add_argument("--enough", type=int, default=20, help="calls a package needs to be the worst caller")
    parser.add_argument("--require", action="store_true", help="exit 1 below the numbers that the project promises")
    options = parser.parse_args(arguments)
    pins = load()
    packages = options.packages or [name for name in pins.packages if (options.truth / f"{name}.json").exists()]
    report = measure(options.truth, options.ours, packages, pins.pairs)
    print(render(report, options.list, options.enough))
    if options.json:
        options.json.write_text(json.dumps(as_json(report, options.enough), indent=1) + "\n", encoding="utf-8")
    low = failures(report, options.enough)
    for line in low:
        print(f"below the promise: {line}", file=sys.stderr)
    return 1 if low and options.require else 0


def failures(report: Report, at_least: int) -> list[str]:
    """The promised numbers that are not reached."""
    low = worst(report, at_least)
    wanted = [
        ("cross-package recall", report.cross.recall, 0.88),
        ("cross-package precision", report.cross.precision, 0.98),
        ("recall inside packages", report.inside.recall, 0.93),
        ("precision inside packages", report.inside.precision, 0.99),
        (f"recall of the worst caller ({low[0]})" if low else "", low[1].recall if low else None, 0.70),
    ]
    return [
        f"{name} {value or 0:.1%}, wanted {least:.0%}" for name, value, least in wanted if name and (value or 0) < least
    ]


if __name__ == "__main__":
    raise SystemExit(main())
