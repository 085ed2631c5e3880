"""The comparison, on tiny graphs where every number is known."""

import json
from pathlib import Path
from typing import Any

import pytest

from quality import compare as quality
from quality.compare import (
    Answer,
    OracleError,
    Place,
    Report,
    Score,
    canonical,
    mean_recall,
    oracle_answers,
    our_answers,
    owner,
    worst,
)
from quality.silent import context, pick, silent_calls

MODULES = {"lib": "lib", "lib.core": "lib", "app": "app"}


def edge(target: str | None, *sites: tuple[int, int], kind: str = "calls") -> dict[str, Any]:
    return {
        "source": "s",
        "target": "t",
        "type": kind,
        "sites": [{"file": "app.py", "line": line, "col": col} for line, col in sites],
        "resolved": None if target is None else {"repo": "r", "canonical": target},
    }


def ours(*edges: dict[str, Any]) -> dict[Place, Answer | None]:
    return our_answers({"nodes": [], "edges": list(edges)}, MODULES)


def truth(*calls: tuple[int, int, str, str]) -> dict[str, Any]:
    return {
        "package": "app",
        "modules": ["app"],
        "files": ["app.py"],
        "calls": [
            {"file": "app.py", "line": line, "col": col, "target": target, "target_package": package}
            for line, col, target, package in calls
        ],
    }


def report(oracle: dict[str, Any], mine: dict[Place, Answer | None], *errors: OracleError) -> Report:
    found = Report()
    quality.compare("app", oracle_answers(oracle, errors), mine, found, [("app", "lib")])
    return found


def test_recall_and_precision_of_a_known_case() -> None:
    oracle = truth(
        (1, 0, "lib.core.f", "lib"),
        (2, 0, "lib.core.C", "lib"),
        (3, 0, "lib.core.g", "lib"),
        (4, 0, "lib.core.h", "lib"),
        (5, 0, "app.local", "app"),
        (6, 0, "builtins.dict.get", ""),
    )
    mine = ours(
        edge("lib.core.f", (1, 0)),
        edge("lib.core.C.__init__", (2, 0)),
        edge("lib.core.wrong", (3, 0)),
        edge(None, (4, 0)),
        edge("app.local", (5, 0)),
        edge("lib.core.get", (6, 0)),
        edge("lib.core.f", (7, 0)),
    )
    found = report(oracle, mine)
    assert (found.cross.oracle, found.cross.found, found.cross.recall) == (4, 2, 0.5)
    assert (found.cross.answered, found.cross.right, found.cross.precision) == (4, 2, 0.5)
    assert (found.inside.recall, found.inside.precision) == (1.0, 1.0)
    assert found.pairs["app", "lib"].numbers() == found.cross.numbers()
    assert [(item.line, item.ours) for item in found.cross.misses] == [(3, "lib.core.wrong"), (4, None)]
    assert [(item.line, item.oracle) for item in found.cross.wrong] == [(3, "lib.core.g"), (6, "builtins.dict.get")]


def test_the_truth_compared_with_itself_is_perfect() -> None:
    oracle = truth((1, 0, "lib.core.f", "lib"), (1, 9, "app.g", "app"))
    found = report(oracle, ours(edge("lib.core.f", (1, 0)), edge("app.g", (1, 9))))
    assert {found.cross.recall, found.cross.precision, found.inside.recall, found.inside.precision} == {1.0}


def test_another_column_of_the_same_line_is_a_miss() -> None:
    found = report(truth((1, 4, "lib.core.f", "lib")), ours(edge("lib.core.f", (1, 0))))
    assert (found.cross.recall, found.cross.precision) == (0.0, None)


def test_edges_of_other_types_do_not_count() -> None:
    found = report(truth((1, 0, "lib.core.f", "lib")), ours(edge("lib.core.f", (1, 0), kind="references")))
    assert found.cross.found == 0


def test_two_targets_at_one_place_are_neither_right_nor_judged() -> None:
    mine = ours(edge("lib.core.f", (1, 0)), edge("lib.core.g", (1, 0)))
    found = report(truth((1, 0, "lib.core.f", "lib")), mine)
    assert (found.cross.found, found.cross.answered) == (0, 0)
    assert found.cross.misses[0].ours == "several targets"


def test_a_class_and_its_constructor_at_one_place_are_one_target() -> None:
    mine = ours(edge("lib.core.C", (1, 0)), edge("lib.core.C.__init__", (1, 0)))
    assert report(truth((1, 0, "lib.core.C.__init__", "lib")), mine).cross.recall == 1.0
    assert canonical("lib.core.C.__new__") == "lib.core.C"


@pytest.mark.parametrize("line", [1, 0])
def test_a_known_error_of_the_oracle_is_left_out_of_both_numbers(line: int) -> None:
    oracle, mine = truth((1, 0, "lib.core.bad", "lib")), ours(edge("lib.core.f", (1, 0)))
    found = report(oracle, mine, OracleError("app", "app.py", line, "lib.core.bad"))
    assert (found.cross.oracle, found.cross.answered) == (0, 0)
    other = report(oracle, mine, OracleError("app", "app.py", 2, "lib.core.bad"))
    assert (other.cross.oracle, other.cross.answered) == (1, 1)


def test_an_error_without_a_reason_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "errors.toml"
    path.write_text('[[error]]\npackage = "a"\nfile = "f"\nline = 1\ntarget = "t"\n', encoding="utf-8")
    with pytest.raises(ValueError, match="has no reason"):
        quality.load_errors(path)


def test_the_committed_errors_have_reasons() -> None:
    quality.load_errors()


def test_a_name_belongs_to_the_longest_module() -> None:
    assert owner("lib.core.f", MODULES) == "lib"
    assert owner("library.f", MODULES) == ""
    assert owner("app.C.m", MODULES) == "app"


def test_the_worst_caller_needs_enough_calls() -> None:
    found = report(truth((1, 0, "lib.core.f", "lib")), {})
    low = worst(found, 1)
    assert low is not None
    assert low[0] == "app"
    assert worst(found, 2) is None


def test_the_mean_weighs_every_caller_the_same() -> None:
    found = Report()
    found.cross_by_caller["big"] = Score(oracle=9, found=9)
    found.cross_by_caller["small"] = Score(oracle=1)
    assert mean_recall(found, 1) == 0.5
    assert mean_recall(found, 2) == 1.0
    assert mean_recall(Report(), 0) is None


def test_the_program_prints_numbers_and_fails_below_the_promise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "truth").mkdir()
    (tmp_path / "ours").mkdir()
    requests = {**truth((1, 0, "requests.f", "requests")), "package": "requests", "modules": ["requests"]}
    (tmp_path / "truth" / "requests.json").write_text(json.dumps(requests), encoding="utf-8")
    paths = ["--truth", str(tmp_path / "truth"), "--ours", str(tmp_path / "ours"), "--json", str(tmp_path / "out.json")]
    assert quality.main([*paths, "--require"]) == 1
    assert "inside requests" in capsys.readouterr().out
    out = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert out["inside"]["recall"] == 0.0
    assert out["inside_misses"][0]["oracle"] == "requests.f"


def test_silent_calls_are_those_without_an_answer_of_the_oracle() -> None:
    oracle = oracle_answers(truth((1, 0, "lib.core.f", "lib")), ())
    mine = ours(
        edge("lib.core.f", (1, 0)), edge("lib.core.g", (2, 0)), edge("json.loads", (3, 0)), edge("app.f", (4, 0))
    )
    found = silent_calls("app", ["app.py"], oracle, mine)
    assert [(place[1], answer.target) for _, place, answer in found] == [(2, "lib.core.g"), (4, "app.f")]
    assert silent_calls("app", ["other.py"], oracle, mine) == []


def test_the_choice_of_silent_calls_depends_on_the_seed_alone() -> None:
    many = [("app", ("app.py", line, 0), Answer("lib.core.f", "lib")) for line in range(50)]
    assert pick(many, 10, 1) == pick(list(reversed(many)), 10, 1) != pick(many, 10, 2)
    assert pick(many, 99, 1) == many


def test_context_marks_the_line() -> None:
    assert context(b"a\nb\nc\nd", 2, 1) == "      1 a\n>     2 b\n      3 c"
