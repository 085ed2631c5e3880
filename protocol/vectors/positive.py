"""Bundles that verify: each a question over the small world, with the trust file that believes its node."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from knowing_protocol.bundle import seal_of
from knowing_protocol.claims import Question
from knowing_protocol.hashing import NodeId, external
from knowing_protocol.history import log_name, node_name
from knowing_protocol.keys import Revocation, Rotation, revocation_text, rotation_text
from knowing_protocol.note import sign_note
from knowing_protocol.prover import make_bundle
from knowing_protocol.statement import AT_COMMITS, AllOf
from knowing_protocol.trust import Pin, TrustedNode, trust_to_json
from world import PAYMENTS, SHOP, TOOLS, Builder, Node, payments, seed, shop, tools, world

from knowingd.keys import SigningKey, public_key_of

CHARGE = NodeId(PAYMENTS, "payments/api", "charge", "function")
AUDIT = NodeId(PAYMENTS, "payments/api", "audit", "function")
SEND = NodeId(PAYMENTS, "payments/client", "Client.send", "method")
CLOSE = NodeId(PAYMENTS, "payments/client", "Base.close", "method")
CHECKOUT = NodeId(SHOP, "shop/cart", "checkout", "function")
REFUND = NodeId(SHOP, "shop/cart", "refund", "function")
CALLS = ("calls",)


class Case(NamedTuple):
    """A bundle and the trust file to check it with, both as JSON texts."""

    bundle: str
    trust: str

    @property
    def parts(self) -> dict[str, Any]:
        """The bundle as plain values, to change."""
        found: dict[str, Any] = json.loads(self.bundle)
        return found


def text(value: object) -> str:
    """JSON as a bundle's author would write it: compact, in the order of the fields."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def sealed(bundle: dict[str, Any]) -> str:
    """A bundle as text, sealed: anybody can do that, a forger too."""
    return text({**bundle, "seal": seal_of(bundle).hex()})


def case(bundle: dict[str, Any], *trusted: TrustedNode) -> Case:
    """A case from plain values."""
    return Case(sealed(bundle), text(trust_to_json(trusted)))


def everything(node: Node) -> AllOf:
    """All repositories of a node."""
    return AllOf(node.origin, node.epoch, "HEAD", "*")


def relation() -> Case:
    """A function calls another of the same repository."""
    node = world()
    return case(make_bundle(Question("relation", AUDIT, CALLS, CHARGE), [node.subject(0)]), node.trusted())


def relation_across_repositories() -> Case:
    """A function calls one of another repository by its import name."""
    node = world()
    question = Question("relation", CHARGE, CALLS, CHECKOUT, "python://payments.charge")
    return case(make_bundle(question, node.subjects()), node.trusted())


def relation_through_a_factory() -> Case:
    """A method is called on what a factory of another repository returns."""
    node = world()
    question = Question("relation", SEND, CALLS, REFUND, "python://payments.make_client().send")
    return case(make_bundle(question, node.subjects()), node.trusted())


def relation_through_a_base_class() -> Case:
    """A method is called that the type inherits."""
    node = world()
    question = Question("relation", CLOSE, CALLS, REFUND, "python://payments.make_client().close")
    return case(make_bundle(question, node.subjects()), node.trusted())


def relation_at_an_old_commit() -> Case:
    """What was true at a commit stays provable when the head has moved on."""
    node = world()
    node.commit(PAYMENTS, Builder(PAYMENTS).records, "5" * 40)
    question = Question("relation", AUDIT, CALLS, CHARGE)
    return case(make_bundle(question, [node.subject(0)], at="commits"), node.trusted())


def relation_in_the_overlay() -> Case:
    """A relation that only the overlay graph has."""
    node = Node("hub")
    node.commit(PAYMENTS, payments().records, "1" * 40, overlay=overlay().records)
    target = NodeId(PAYMENTS, "payments/client", "make_client", "function")
    return case(make_bundle(Question("relation", target, CALLS, CHARGE), [node.subject(0)]), node.trusted())


def no_relation() -> Case:
    """A function does not call a method of another repository."""
    node = world()
    return case(make_bundle(Question("no-relation", SEND, CALLS, CHECKOUT), node.subjects()), node.trusted())


def no_relation_where_others_call() -> Case:
    """A function does not call what its neighbour does."""
    node = world()
    return case(make_bundle(Question("no-relation", AUDIT, CALLS, SEND), [node.subject(0)]), node.trusted())


def no_resolved_relation() -> Case:
    """A call on a receiver without a type is not excluded, and listed."""
    node = world()
    question = Question("no-relation", external("python://requests.get"), CALLS, CHECKOUT)
    return case(make_bundle(question, node.subjects()), node.trusted())


def node_present() -> Case:
    """A symbol exists."""
    node = world()
    return case(make_bundle(Question("node", CHARGE), [node.subject(0)]), node.trusted())


def node_absent() -> Case:
    """A symbol does not exist."""
    node = world()
    return case(make_bundle(Question("no-node", CHARGE._replace(name="gone")), [node.subject(0)]), node.trusted())


def callers() -> Case:
    """All callers, by two import names, one of them re-exported by a third repository."""
    node = world()
    question = Question("callers", CHARGE, CALLS)
    return case(make_bundle(question, node.subjects(), all_of=everything(node)), node.trusted())


def callers_in_one_repository() -> Case:
    """All callers within the repository that defines the symbol."""
    node = world()
    return case(make_bundle(Question("callers", AUDIT, CALLS), [node.subject(0)]), node.trusted())


def callers_by_one_repository() -> Case:
    """Who uses a function in one repository; that of the function only says what it is called."""
    node = world()
    question = Question("callers", CHARGE, CALLS, by=(SHOP,))
    subjects = [one for one in node.subjects() if one.header.repository in (PAYMENTS, SHOP)]
    return case(make_bundle(question, subjects), node.trusted())


def callers_of_a_renamed_member() -> Case:
    """A method that is also a member under another name."""
    node = world()
    question = Question("callers", SEND, CALLS)
    return case(make_bundle(question, node.subjects(), all_of=everything(node)), node.trusted())


def callers_none() -> Case:
    """Nobody calls a function of the standard library."""
    node = world()
    question = Question("callers", external("python://hashlib.md5"), CALLS)
    return case(make_bundle(question, node.subjects(), all_of=everything(node)), node.trusted())


def callers_none_but_undecided() -> Case:
    """Nobody is known to call a function, and one call is not excluded."""
    node = world()
    question = Question("callers", external("python://requests.get"), CALLS)
    return case(make_bundle(question, node.subjects()), node.trusted())


def callers_of_two_nodes() -> Case:
    """A library on one node, its users on another: two logs, two signatures."""
    library, users = Node("library"), Node("users")
    library.commit(PAYMENTS, payments().records, "1" * 40)
    users.commit(TOOLS, tools().records, "3" * 40)
    users.commit(SHOP, shop().records, "4" * 40)
    subjects = [*library.subjects(), *users.subjects()]
    bundle = make_bundle(Question("callers", CHARGE, CALLS), subjects)
    return case(bundle, library.trusted(PAYMENTS), users.trusted("github.com/acme/*"))


def rotated_key() -> Case:
    """A checkpoint signed by the second key of a node."""
    node = world()
    notes = [rotation(node, "hub", "hub two", 2)]
    view = node.view(key_notes=notes)
    signer = SigningKey(log_name(node.origin, 0), seed("hub two"))
    bundle = make_bundle(Question("node", CHARGE), [node.subject(0, view)])
    note_text = bundle["checkpoints"][0]["note"].split("\n\n")[0] + "\n"
    bundle["checkpoints"][0]["note"] = sign_note(note_text, [signer])
    return case(bundle, node.trusted())


def pinned() -> Case:
    """A checkpoint that extends the pinned state of its log."""
    node = world()
    view = node.view(consistent_with=[2])
    pin = Pin(0, 2, node.log.root(2))
    return case(make_bundle(Question("node", CHARGE), [node.subject(0, view)]), node.trusted(pins=(pin,)))


def at_commits_of_an_overtaken_state() -> Case:
    """A bundle about commits stays good when the log grows, where the state it is of was pinned too."""
    node = world()
    view = node.view(2)
    pins = (Pin(0, 2, node.log.root(2)), Pin(0, 4, node.log.root(4)))
    bundle = make_bundle(Question("node", CHARGE), [node.subject(0, view)], at=AT_COMMITS)
    return case(bundle, node.trusted(pins=pins))


def at_commits_older_than_the_pin() -> Case:
    """Nothing is wrong with an older bundle about commits, but nothing shows that the pinned log has grown from it."""
    node = world()
    bundle = make_bundle(Question("node", CHARGE), [node.subject(0, node.view(2))], at=AT_COMMITS)
    return case(bundle, node.trusted(pins=(Pin(0, 4, node.log.root(4)),)))


def names_with_colons() -> Case:
    """Package and name may hold what joins them elsewhere."""
    node = Node("hub")
    node.commit(SHOP, with_colons().records, "1" * 40)
    question = Question("relation", NodeId(SHOP, "a:b", "d", "function"), CALLS, NodeId(SHOP, "a:b", "c", "function"))
    return case(make_bundle(question, [node.subject(0)]), node.trusted())


def overlay() -> Builder:
    """What another tool saw of the library."""
    made = Builder(PAYMENTS)
    caller = made.node("payments/api", "charge")
    made.edge(caller, made.node("payments/client", "make_client"), how="scip_resolved")
    return made


def with_colons() -> Builder:
    """A repository whose package has a colon in it."""
    made = Builder(SHOP)
    made.edge(made.node("a:b", "c"), made.node("a:b", "d"))
    return made


def rotation(node: Node, old: str, new: str, size: int) -> str:
    """A rotation note of a node, signed by both keys."""
    stated = Rotation(node.origin, 0, size, public_key_of(seed(old)), public_key_of(seed(new)))
    name = node_name(node.origin)
    return sign_note(rotation_text(stated), [SigningKey(name, seed(old)), SigningKey(name, seed(new))])


def revocation(node: Node, key: str, size: int, signer: str) -> str:
    """A revocation note of a node."""
    stated = Revocation(node.origin, 0, size, public_key_of(seed(key)))
    return sign_note(revocation_text(stated), [SigningKey(node_name(node.origin), seed(signer))])


POSITIVE: tuple[Callable[[], Case], ...] = (
    relation,
    relation_across_repositories,
    relation_through_a_factory,
    relation_through_a_base_class,
    relation_at_an_old_commit,
    relation_in_the_overlay,
    no_relation,
    no_relation_where_others_call,
    no_resolved_relation,
    node_present,
    node_absent,
    callers,
    callers_in_one_repository,
    callers_by_one_repository,
    callers_of_a_renamed_member,
    callers_none,
    callers_none_but_undecided,
    callers_of_two_nodes,
    rotated_key,
    pinned,
    at_commits_of_an_overtaken_state,
    at_commits_older_than_the_pin,
    names_with_colons,
)
DOUBTFUL = (at_commits_older_than_the_pin,)
