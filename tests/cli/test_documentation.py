"""What is written about the command line is true."""

from __future__ import annotations

import re
from pathlib import Path

from knowingd.cli import COMMANDS, cli

ROOT = Path(__file__).parents[2]


def test_the_readme_names_every_command_and_no_other() -> None:
    text = (ROOT / "README.md").read_text()
    section = text.split("## Commands so far")[1].split("\n## ")[0]
    assert set(re.findall(r"`knowing ([a-z-]+)", section)) == set(COMMANDS)


def test_every_command_loads_and_says_what_it_is_for() -> None:
    context = cli.make_context("knowing", ["--help"], resilient_parsing=True)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        assert command.help


def test_files_that_the_documents_point_to_exist() -> None:
    for document in ("README.md", "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / document).read_text()):
            assert (ROOT / target).exists(), (document, target)


def test_make_targets_that_the_documents_name_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for document in ("README.md", "CONTRIBUTING.md"):
        named = set(re.findall(r"(?:`|^)make ([a-z-]+)", (ROOT / document).read_text(), re.MULTILINE))
        assert named <= targets, document
