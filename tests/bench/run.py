"""`make bench`: runs every benchmark and prints it; with `--write`, keeps the result in docs/benchmarks.md."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "protocol" / "vectors"), str(ROOT / "tests" / "bench")]

import bench_kernel  # noqa: E402
import bench_prove  # noqa: E402
import bench_store  # noqa: E402
import bench_sync  # noqa: E402

NOTES = (
    "Map: building one takes 2.1 to 2.3 times its bare hashing when the machine is quiet, not 1.8. Timed stage by",
    "stage (bare hashing: 88 ms for 100,000 keys): sorting the records 40 ms, copying them in key order and",
    "finding the first differing bits 21 ms, and the loop that joins neighbours 30 ms besides its hashing.",
    "Measured without gain: sharing out by leading bits before sorting, and sorting by floats, by 30-bit integers",
    "or as Latin-1 text. Keeping every node as a tuple took 2.6. Input that is already in key order took 1.8 to",
    "2.0 in a few runs on a busy machine. Not tried: a compiled join; the kernel is plain Python so that the",
    "verifier needs nothing else.",
    "",
    "Store, writing: measured as a first load writes; until then, 9.0 for rows that are added to others. Of 2.9 s",
    "(bare rows: 0.3), 0.8 go into finding the places of 500,000 pairs of hashes, 1.1 into",
    "hashing and numbering 100,000 nodes and sorting the edges, 0.9 into the insertion of all rows and indexes.",
    "",
    "Store, size: kept bucket roots take 24.6 bytes an edge (3.4 of them the ends of pages), edges 12.5, the way back",
    "12, nodes and their indexes 12, definition sites with their signatures, which count here, 9.5, names and facts",
    "9. A bucket has four to eight keys, whatever the size of the map falls on; twice as many would save about 10",
    "bytes and make an incremental snapshot 1.7 times slower.",
    "",
    "Indexing, by hand on Django's tree (2,823 Python files, 410,000 edges), two cores, the machine quiet: 21.9 s",
    "cold and 38 s of processor time, 9 times the bare parse on one core (2.4 s), where 3 are asked. Before maps",
    "were made beside the writing, the same way: 31.0 s and 45 s. By the clock: start and listing 0.6; reading 4.9;",
    "linking 7.5; numbering 0.6; writing, search and what is kept for the next time (4.0) and the published maps",
    "(2.1) beside the maps of uses (6.5), 7.1; commit 0.5; a look at the work tree 0.4. Both cores are busy in all",
    "of these but about 2.5 s, so that only less work helps from here on. Processor time: reading 9.5, of which the",
    "parse takes 2.4 and the query 1.7; linking 12.5, of which 7.3 are the walks and 2.2 the roots of files'",
    "attributes; numbering, writing and maps 14. About 6.5 million hashes, in linking and maps together, are at",
    "least 3 of it. Memory: 0.47 GB a process at most (0.84 before), 0.98 of all processes together; sympy, 745,000",
    "lines, 0.73 and 1.8, where 1 is asked for a million lines. Beside other busy processes all of it takes up to",
    "twice as long.",
    "",
    "flask: 1.13 s from the shell, where 0.6 are asked (1.40 before; 0.3 are imports, of which 0.03 compile the",
    "query). The 1.9 s of earlier notes were taken with PYTHONDONTWRITEBYTECODE set, which compiles every module at",
    "each start. One function of Django edited: 0.81 s, as before (0.83), where 0.59 are asked: start and imports",
    "0.25, listing the commit 0.11, linking both states of the module 0.1, the snapshot itself 0.06, and a look at",
    "the work tree, which asks git three times and each of 7,085 files, 0.29.",
    "",
    "Remaining time, as shown on a terminal while Django and sympy (745,000 lines, 419,000 edges, 26 to 32 s) are",
    "indexed twice each, the machine quiet: from half-way on, 107 of 112 estimates were within 30% and half a second.",
    "The constants behind them were fitted to these two trees, so that others will be further off.",
    "",
    "Proofs: warm means a relation that this process was asked about before, whose small branch it still has; one of",
    "a package that is new to it stands in the next row. A new process has its bytecode kept, as an installed program",
    "has, and spends four fifths of its time on loading modules. In four runs between small changes of the code: warm",
    "1.93 to 2.10 ms, a new process 194 to 269, verified besides the signature 0.82 to 0.90; over 1,000 repositories",
    "made in 4.7 to 5.8 s, in six. Of these a quarter opens and closes databases, half makes the buckets that the",
    "walks enter. Of 100,000 random changes to bundles, most of them sealed again, none was accepted that says",
    "anything else than an honest one.",
    "",
    "Measured without gain, or within the noise: copies of hashers that begin with a common prefix; hashing through",
    "`map`; hashes of relations from prepared bytes (a tenth); roots of attributes without a tree; sharing out",
    "units in blocks of neighbours; not noting visited keys at all (a tenth of the walks, the most that any better",
    "way of noting them could save). Three processes on two cores delayed the longest of them by a second. A",
    "compiled core for hashing and linking is what would help.",
    "",
    "Sync, by hand: Django's repository (76,222 symbols, 410,444 edges) first came in 10.0 MB and 50 round trips;",
    "one commit further (three Python files, 144 lines) was a delta of 36,560 bytes in one round trip and 0.8 s,",
    "where git's thin pack of the commit has 4,019 bytes: a changed file's declarations and call sites travel",
    "whole. A change reached a peer that serves in 0.30 s (median of 30), 0.36 s (95%). Of 2,000 refusals, those",
    "of hidden repositories took 1.02 times those of absent ones (medians). `rsync` was not at hand to compare",
    "with.",
    "",
    "Questions over 1,000 generated repositories, from the shell, on a busy machine: 0.4 to 0.6 s for a symbol",
    "used in 5 of them, 4 to 12 s for one that nearly all use; at most 108 descriptors.",
    "",
    "Differences: the rival that reads edges by hash was added after the one by shared ids had given 105 to 162,",
    "which is under the 200 asked. Half of the time goes into the names of 1,000 symbols and the order of the",
    "answer.",
)


def main() -> None:
    lines = [
        "# Benchmarks",
        "",
        "Made by `make bench WRITE=1`. Ratios are to a limit or rival measured in the same run; single times are the",
        "best of a few on a shared machine with two cores, and say little by themselves.",
        "",
        f"Python {platform.python_version()}.",
    ]
    only = [word for word in sys.argv[1:] if not word.startswith("-")]
    sections = bench_kernel.SECTIONS | bench_store.SECTIONS | bench_sync.SECTIONS | bench_prove.SECTIONS
    for title, section in sections.items():
        if only and not any(word.lower() in title.lower() for word in only):
            continue
        lines += ["", f"## {title}", "", "| what | measured | target | |", "|---|---:|---|---|"]
        for row in section():
            verdict = "" if not row.target else "met" if row.met else "**not met**"
            lines.append(f"| {row.what} | {row.measured} | {row.target} | {verdict} |")
            print(f"{row.what:70} {row.measured:>12}  {row.target:16} {verdict.strip('*')}", flush=True)
    lines += ["", "## Notes", "", *NOTES]
    if "--write" in sys.argv[1:]:
        (ROOT / "docs" / "benchmarks.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
