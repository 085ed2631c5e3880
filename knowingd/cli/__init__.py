"""The command line: one module a group of commands, loaded only when it is asked for.

Only surfaces read the environment, print, or exit. Every command takes `--json`, `-q`, `-v` and `--home` behind it;
errors have one shape and one table of exit codes (0 ok, 1 failed, 2 usage, 3 verification failed, 4 not found, 5 peer).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NoReturn, TypeVar

import click
from knowing_protocol.errors import KnowingError

from knowingd import __version__

# Command to the module that has it; the help text stands here so that `--help` loads none of them.
COMMANDS = {
    "init": ("knowingd.cli.node:init", "Make the node's key and directories (also done on first use)."),
    "add": ("knowingd.cli.index:add", "Register repositories and index them: paths or git URLs."),
    "index": ("knowingd.cli.index:index", "Index repositories again; only what changed is read."),
    "watch": ("knowingd.cli.watch:watch", "Index on every change."),
    "stale": ("knowingd.cli.watch:stale", "Which snapshots are behind their sources."),
    "callers": ("knowingd.cli.query:callers", "Who uses a symbol, in any repository."),
    "callees": ("knowingd.cli.query:callees", "What a symbol uses, and where that is defined."),
    "search": ("knowingd.cli.query:search", "Symbols by words."),
    "dangling": ("knowingd.cli.query:dangling", "References that leave a repository, and where they lead."),
    "export": ("knowingd.cli.query:export", "A repository's graph as JSON, DOT, Mermaid or GraphML."),
    "list": ("knowingd.cli.node:list_repositories", "The repositories of this node and their newest snapshots."),
    "status": ("knowingd.cli.peers:status", "The node at a glance: repositories, peers, evidence."),
    "log": ("knowingd.cli.node:log", "The snapshots of a repository, newest first, with their roots."),
    "diff": ("knowingd.cli.history:difference", "What differs between two snapshots of a repository."),
    "stats": ("knowingd.cli.node:stats", "What is in the databases, and how much room it takes."),
    "remove": ("knowingd.cli.node:remove", "Take a repository off this node."),
    "fsck": ("knowingd.cli.node:check", "Check every hash, root, log entry and signature."),
    "gc": ("knowingd.cli.history:collect", "Forget old snapshots and give their space back."),
    "backup": ("knowingd.cli.history:backup", "A consistent copy of everything in one file."),
    "restore": ("knowingd.cli.history:restore", "Bring a backup back."),
    "serve": ("knowingd.cli.serve:serve", "Run the node: answer peers, and pull from them."),
    "peer": ("knowingd.cli.peers:peer", "Other nodes: invite, add, list, accept, grant, revoke, remove."),
    "sync": ("knowingd.cli.peers:sync", "Pull now what peers offer."),
    "publish": ("knowingd.cli.publish:publish", "Index here, append to a hub's log: for CI runners."),
    "token": ("knowingd.cli.tokens:token", "Tokens for people, scripts and CI runners: create, list, revoke."),
    "evidence": ("knowingd.cli.peers:evidence", "Proof that a node signed two histories."),
    "key": ("knowingd.cli.keys:key", "The node's keys: show, rotate, revoke, import."),
    "prove": ("knowingd.cli.prove:prove", "Prove that a symbol uses another, in a file that verifies offline."),
    "prove-absent": ("knowingd.cli.prove:prove_absent", "Prove that a symbol does not, or that nobody does."),
    "prove-callers": ("knowingd.cli.prove:prove_callers", "Prove who uses a symbol: the complete list."),
    "trust": ("knowingd.cli.prove:trust", "Whose signatures count: export, add, list."),
    "verify": ("knowingd.cli.verify:command", "Check a proof bundle offline."),
    "demo": ("knowingd.cli.demo:command", "Two nodes, real packages: index, ask, sync; proofs, and forgeries refused."),
}

_Command = TypeVar("_Command", bound=Callable[..., Any])


class LazyGroup(click.Group):
    """A group that imports a command's module when it is run or asked for its help."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """All commands, in the order in which people meet them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command, loaded."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The list of commands, without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="knowing")
def cli() -> None:
    """A federated code knowledge graph: who calls this, anywhere; and proof of it."""


def common_options(command: _Command) -> _Command:
    """The options that every command takes behind its name."""
    for option in (
        click.option("--home", metavar="DIR", envvar="KNOWING_HOME", help="The node's data directory."),
        click.option("-v", "--verbose", is_flag=True, help="Say more, on stderr."),
        click.option("-q", "--quiet", is_flag=True, help="Say nothing but the result."),
        click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout, and nothing else there."),
    ):
        command = option(command)
    return command


def wait_option(command: _Command) -> _Command:
    """How long a writer waits for another one."""
    text = "Seconds to wait for another writer of the same repository."
    return click.option("--wait", type=click.FloatRange(0), default=30.0, show_default=True, metavar="N", help=text)(
        command
    )


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = cli.main(words, prog_name="knowing", standalone_mode=False)
    except KnowingError as error:
        _print_error(error, as_json="--json" in words)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        if "--json" in words:
            usage = KnowingError(error.format_message(), code="usage", hint="see `knowing --help`")
            _print_error(usage, as_json=True)
        else:
            error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)  # noqa: T201
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read our output has enough: not an error, and nothing may be written any more.
        sys.stderr.close()
        sys.exit(0)
    except Exception as error:
        # A defect, or a database that is damaged where nobody looked; `-v` shows where.
        if "-v" in words or "--verbose" in words:
            raise
        message = f"this should not have happened: {type(error).__name__}: {error}"
        hint = "`knowing fsck` checks the databases; with -v the command shows where it happened"
        _print_error(KnowingError(message, code="internal", hint=hint), as_json="--json" in words)
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)


def _print_error(error: KnowingError, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(error.as_json(), ensure_ascii=False))
    else:
        hint = f"\n  {error.hint}" if error.hint else ""
        click.echo(f"error: {error.message}{hint}", err=True)
