"""`make fuzz-bundles`: random changes to real bundles, none of which may be accepted with another statement.

Bytes, fields and lists are changed, and parts swapped between bundles. Most of what is changed is sealed again, as a
forger would: otherwise only the seal would be tried. Whatever is accepted must say, and exclude, word for word what an
honest bundle says, or what follows from it: the same of fewer edge types, without the word "all", or with another
pattern that matches the same repositories. Nothing may raise, or take longer than a second.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from knowing_protocol.bundle import seal_of
from knowing_protocol.trust import Trust, parse_trust
from knowing_protocol.urls import matches
from knowing_protocol.verify import VERIFIED, Report, verify_document

from knowingd import keys

FOLDER = Path(__file__).parent / "bundles"
BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
ODD: tuple[Any, ...] = (None, 0, 1, -1, 2**31, 2**64, True, False, "", "x", [], {}, [[]], [None], "\x00", "\u202e", 0.5)
SLOWEST = 1.0


class Outcome(NamedTuple):
    """What a run met."""

    tried: int
    accepted: int
    follow: int
    codes: Counter[str]


class Corpus:
    """Honest bundles, whom to believe, and everything that honest bundles say."""

    def __init__(self, folder: Path) -> None:
        paths = [path for path in sorted(folder.glob("*.json")) if not path.stem.isupper()]
        self.trust: Trust = parse_trust((folder / "TRUST.json").read_bytes(), keys.verify)
        self.bundles: list[dict[str, Any]] = [json.loads(path.read_bytes()) for path in paths]
        # Which of two notes of a fork came first cannot be known: the other order is as true.
        turned = [{**one, "notes": one["notes"][::-1]} for one in self.bundles if "notes" in one]
        self.honest = {said(self.judge(packed(bundle))) for bundle in self.bundles + turned}

    def implies(self, data: bytes) -> bool:
        """Whether a statement follows from that of an honest bundle."""
        found = json.loads(data)["statement"]
        return any(_follows(found, one["statement"]) for one in self.bundles if "statement" in one)

    def judge(self, data: bytes) -> Report:
        return verify_document(data, self.trust, keys.verify)


def _follows(found: dict[str, Any], honest: dict[str, Any]) -> bool:
    """Whether one statement is another one that says less, or has another pattern for the same repositories."""
    types = set(found["types"])
    if not types <= set(honest["types"]):
        return False
    both = []
    for one in (found, honest):
        lists = {name: [row for row in one[name] if row["type"] in types] for name in ("callers", "undecided")}
        all_of = found["all_of"] and one["all_of"] and {**one["all_of"], "pattern": ""}  # not to say "all" says less
        both.append({**one, **lists, "types": [], "all_of": all_of})
    pattern = found["all_of"]["pattern"] if found["all_of"] else "*"
    lists_are_whole = all(row["type"] in types for name in ("callers", "undecided") for row in found[name])
    return both[0] == both[1] and lists_are_whole and all(matches(pattern, row["repository"]) for row in found["scope"])


def said(report: Report) -> str:
    """What is claimed, what is excluded, of which commits, and by whom it was signed."""
    assert report.verdict == VERIFIED, (report.code, report.reason)
    signed = [one.as_json() for one in report.checkpoints]
    return json.dumps([report.statement, report.not_covered, report.entries, signed], sort_keys=True)


def packed(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to everything inside."""
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*path, key))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from places(inner, (*path, place))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    at(value, path[:-1])[path[-1]] = new
    return value


def odd(random: Random) -> Any:
    return json.loads(json.dumps(random.choice(ODD)))  # a copy, since a later change may go into it


def other_value(value: Any, random: Random) -> Any:
    """Something near a value."""
    if isinstance(value, bool) or value is None:
        return odd(random)
    if isinstance(value, int):
        return random.choice((value + 1, value - 1, -value, value ^ 1, value * 2, odd(random)))
    if isinstance(value, str):
        return other_text(value, random)
    if isinstance(value, list):
        return other_list(value, random)
    if isinstance(value, dict):
        changed = dict(value)
        if changed and random.random() < 0.6:
            key = random.choice(sorted(changed))
            kept = changed.pop(key)
            if random.random() < 0.5:
                changed[random.choice((f"{key}x", key.upper(), "extra"))] = kept
        else:
            changed["extra"] = odd(random)
        return changed
    return odd(random)


def other_text(text: str, random: Random) -> Any:
    draw = random.random()
    place = random.randrange(len(text) + 1)
    if draw < 0.5 and text:
        place %= len(text)
        return text[:place] + random.choice(BASE64) + text[place + 1 :]
    if draw < 0.6:
        return text[:place]
    if draw < 0.7:
        return text[:place] + random.choice(("x", "\x00", "\u202e", "é", " ", "\n", ".", "/")) + text[place:]
    if draw < 0.8:
        return text.swapcase()
    if draw < 0.9:  # a piece of a walk left out or repeated
        end = place + random.choice((4, 44, 64, 88))
        return text[:place] + (text[place:end] * 2 if random.random() < 0.5 else "") + text[end:]
    return odd(random)


def other_list(values: list[Any], random: Random) -> list[Any]:
    changed = list(values)
    if not changed:
        return [odd(random)]
    place = random.randrange(len(changed))
    draw = random.random()
    if draw < 0.4:
        del changed[place]
    elif draw < 0.6:
        changed.insert(place, changed[random.randrange(len(changed))])
    elif draw < 0.8:
        other = random.randrange(len(changed))
        changed[place], changed[other] = changed[other], changed[place]
    elif draw < 0.9:
        changed.reverse()
    else:
        changed.clear()
    return changed


def step(bundle: Any, corpus: Corpus, random: Random) -> Any:
    """One change to a bundle."""
    ways = list(places(bundle))
    path = random.choice(ways)
    if random.random() < 0.3:  # a part of another bundle, from the same place if it has one, or of the same name
        donor = random.choice(corpus.bundles)
        alike = [one for one in places(donor) if one[-1:] == path[-1:]]
        if path in alike and random.random() < 0.7:
            alike = [path]
        if alike:
            return put(bundle, path, json.loads(json.dumps(at(donor, random.choice(alike)))))
    return put(bundle, path, other_value(at(bundle, path), random))


def other_bytes(data: bytes, random: Random) -> bytes:
    place = random.randrange(len(data))
    draw = random.random()
    if draw < 0.4:
        return data[:place] + bytes([data[place] ^ (1 << random.randrange(8))]) + data[place + 1 :]
    if draw < 0.6:
        return data[:place] + random.randbytes(1) + data[place:]
    if draw < 0.8:
        return data[:place] + data[place + random.randrange(1, 40) :]
    if draw < 0.9:
        return data[:place]
    end = place + random.randrange(1, 200)
    return data[:end] + data[place:end] + data[end:]


def mutated(corpus: Corpus, random: Random) -> bytes:
    """A changed bundle, mostly sealed again."""
    bundle = json.loads(json.dumps(random.choice(corpus.bundles)))
    if random.random() < 0.15:
        return other_bytes(packed(bundle), random)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        bundle = step(bundle, corpus, random)
    if isinstance(bundle, dict) and "seal" in bundle and random.random() < 0.9:
        with suppress(Exception):  # what cannot be sealed is tried unsealed
            bundle["seal"] = seal_of(bundle).hex()
    return packed(bundle)


def run(count: int, seed: int, seconds: float = 1e9, folder: Path | None = None) -> Outcome:
    """So many changes, or as many as fit; raises at the first that is accepted and says something else."""
    corpus = Corpus(folder or max(path for path in FOLDER.iterdir() if path.is_dir()))
    end = time.monotonic() + seconds
    codes: Counter[str] = Counter()
    accepted = follow = tried = 0
    for number in range(count):
        data = mutated(corpus, Random(seed * 1_000_000_007 + number))
        start = time.process_time()
        report = corpus.judge(data)
        taken = time.process_time() - start
        if taken > SLOWEST:
            raise AssertionError(f"change {number} of seed {seed} took {taken:.1f} s")
        codes[report.code] += 1
        if report.verdict == VERIFIED:
            accepted += 1
            other = said(report) not in corpus.honest
            follow += other
            if other and not corpus.implies(data):
                raise AssertionError(f"change {number} of seed {seed} was accepted: {report.statement}")
        tried = number + 1
        if time.monotonic() > end:
            break
    return Outcome(tried, accepted, follow, codes)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 1e9
    found = run(count, seed, seconds)
    print(f"seed {seed}: {found.tried:,} changes, none accepted that says something else")
    same = found.accepted - found.follow
    print(f"{same:,} accepted that say what an honest bundle says, {found.follow:,} that say what follows from it")
    for code, times in found.codes.most_common():
        print(f"{times:8,}  {code}")


if __name__ == "__main__":
    main()
