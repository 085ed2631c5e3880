"""Ways in which an honest graph, or one with a hostile neighbour, might have been read as showing too much."""

from __future__ import annotations

import positive
import pytest
from knowing_protocol.claims import Answer, Question, decide
from knowing_protocol.errors import RejectedError
from knowing_protocol.graph import Graph
from knowing_protocol.hashing import NodeId, external
from knowing_protocol.keys import KeyChain
from knowing_protocol.records import Facts, LocalType
from knowing_protocol.render import quoted
from knowing_protocol.verify import verify_bundle
from knowing_protocol.walk import UNKNOWN_BASE, UNKNOWN_RESULT
from world import Builder, Node

APP, LIB, THIRD = "github.com/acme/app", "github.com/acme/lib", "github.com/acme/third"


def library(repo: str, root: str) -> Builder:
    made = Builder(repo)
    made.alias(f"python://{root}", made.node(root, "", "file"))
    return made


def using(*paths: str) -> Builder:
    made = Builder("github.com/acme/user")
    for path in paths:
        made.edge(made.node("user", "use"), path)
    return made


def asked(symbol: NodeId, *made: Builder) -> Answer:
    return decide(Question("callers", symbol, ("calls",)), [Graph(one.repo, one.records) for one in made])


def typed(made: Builder, package: str, name: str, *methods: str) -> NodeId:
    owner = made.node(package, name, "type")
    made.alias(f"python://{package}.{name}", owner)
    for method in methods:
        made.member(owner, method, made.node(package, f"{name}.{method}", "method"))
    return owner


def test_a_base_that_is_no_type_is_not_known() -> None:
    """`Base = declarative_base()`: what a variable holds may have any member."""
    orm, app = library(LIB, "orm"), library(APP, "app")
    typed(orm, "orm", "Model", "save")
    orm.alias("python://orm.Base", orm.node("orm", "Base", "var"))
    mixin = typed(app, "app", "Mixin", "save")
    user = typed(app, "app", "User")
    app.facts(user, Facts(bases=("python://orm.Base", LocalType(*mixin[1:]))))
    answer = asked(NodeId(LIB, "orm", "Model.save", "method"), orm, app, using("python://app.User().save"))
    assert [one.reason for one in answer.undecided] == [UNKNOWN_BASE]


def test_one_node_for_a_class_here_and_a_variable_there_is_both() -> None:
    lib = library(LIB, "lib")
    fast = typed(lib, "lib", "Fast", "send")
    client = typed(lib, "lib", "client", "send")
    lib.facts(client, Facts(types=(LocalType(*fast[1:]),)))
    for owner in ("client", "Fast"):
        answer = asked(NodeId(LIB, "lib", f"{owner}.send", "method"), lib, using("python://lib.client.send"))
        assert len(answer.callers) == 1


def test_returns_that_are_not_all_leave_the_result_open() -> None:
    lib, third = library(LIB, "lib"), library(THIRD, "third")
    slow = typed(lib, "lib", "Slow", "send")
    typed(third, "third", "Fast", "send")
    make = lib.node("lib", "make")
    lib.alias("python://lib.make", make)
    lib.facts(make, Facts(returns=(LocalType(*slow[1:]),), partial=("returns",)))
    answer = asked(NodeId(THIRD, "third", "Fast.send", "method"), lib, third, using("python://lib.make().send"))
    assert [one.reason for one in answer.undecided] == [UNKNOWN_RESULT]


def test_an_annotated_builtin_excludes_only_its_own_members() -> None:
    geo, lib = library(THIRD, "geo"), library(LIB, "lib")
    typed(geo, "geo", "Point", "norm", "count")
    make = lib.node("lib", "pos")
    lib.alias("python://lib.pos", make)
    lib.facts(make, Facts(returns=("python://builtins.tuple",)))
    answer = asked(NodeId(THIRD, "geo", "Point.norm", "method"), geo, lib, using("python://lib.pos().norm"))
    assert len(answer.undecided) == 1
    answer = asked(NodeId(THIRD, "geo", "Point.count", "method"), geo, lib, using("python://lib.pos().count"))
    assert answer.undecided == ()


def test_a_repository_cannot_give_another_name_to_the_standard_library() -> None:
    hostile = Builder(THIRD)
    hostile.alias("python://hashlib", hostile.node("x", "", "file"), claimed=False)
    hostile.alias("python://hashlib.sha256", "python://hashlib.md5", claimed=False)
    answer = asked(external("python://hashlib.md5"), hostile, using("python://hashlib.sha256"))
    assert answer.callers == ()


def test_a_member_that_another_repository_offers_does_not_hide_a_module_that_may_have_it() -> None:
    lib, hostile = library(LIB, "lib"), library(THIRD, "lib")
    hostile.alias("python://lib.charge", hostile.node("lib", "charge"))
    payments = library(APP, "payments")
    charge = payments.node("payments", "charge")
    payments.alias("python://payments.charge", charge)
    answer = asked(charge, payments, lib, hostile, using("python://lib.charge"))
    assert [one.target for one in answer.undecided] == ["python://lib.charge"]


def test_candidates_of_which_one_is_of_the_standard_library_are_ambiguous() -> None:
    answer = asked(external("python://simplejson.loads"), using("python://{json.loads|simplejson.loads}"))
    (caller,) = answer.callers
    assert caller.ambiguous


def test_a_backport_that_a_third_repository_re_exports_is_not_excluded() -> None:
    backport, third = Builder(LIB), library(THIRD, "t")
    backport.alias("python://asyncore", backport.node("asyncore", "", "file"), claimed=False)
    server = backport.node("asyncore", "Server", "type")
    backport.member(server, "run", backport.node("asyncore", "Server.run", "method"))
    backport.alias("python://asyncore.Server", server, claimed=False)
    third.alias("python://t.Server", "python://asyncore.Server")
    answer = asked(NodeId(LIB, "asyncore", "Server.run", "method"), backport, third, using("python://t.Server.run"))
    assert len(answer.undecided) + len(answer.callers) == 1


def test_two_epochs_of_one_node_are_not_both_its_head() -> None:
    old, new = Node("hub"), Node("hub", epoch=1)
    lib, app = library(LIB, "lib"), library(APP, "app")
    old.commit(APP, app.records, "1" * 40)
    new.commit(LIB, lib.records, "2" * 40)
    from knowing_protocol.prover import make_bundle
    from knowing_protocol.trust import parse_trust, trust_to_json

    bundle = make_bundle(
        Question("callers", external("python://hashlib.md5"), ("calls",)), [*old.subjects(), *new.subjects()]
    )
    trust = parse_trust(positive.text(trust_to_json([old.trusted()])).encode())
    assert verify_bundle(positive.sealed(bundle).encode(), trust).code == "two-epochs"


def test_a_key_that_signs_everything_is_no_key() -> None:
    with pytest.raises(RejectedError):
        KeyChain(b"\1" + bytes(31))


@pytest.mark.parametrize("text", ["python://h\u0430shlib.md5", "md\uff15", "a\U0001d173b", "\u202e"])
def test_letters_that_look_like_others_are_told(text: str) -> None:
    assert quoted(text).isascii()


def test_hostile_wildcards_and_re_exports_end_soon() -> None:
    import time

    hostile = library(THIRD, "m")
    user = using()
    source = user.node("user", "use")
    for number in range(150):
        hostile.alias(f"python://m.n{number}", "python://elsewhere.charge")
        user.edge(source, f"python://m{number}.*", "imports")
    lib = library(LIB, "lib")
    charge = lib.node("lib", "charge")
    lib.alias("python://lib.charge", charge)
    start = time.perf_counter()
    graphs = [Graph(one.repo, one.records) for one in (lib, hostile, user)]
    decide(Question("callers", charge, ("imports",)), graphs)
    assert time.perf_counter() - start < 2


def test_a_backport_under_another_last_segment_is_not_excluded() -> None:
    backport = Builder(LIB)
    backport.alias("python://importlib", backport.node("m", "", "file"), claimed=False)
    version = backport.node("m", "get_version")
    backport.alias("python://importlib.version", version, claimed=False)
    answer = asked(version, backport, using("python://importlib.version"))
    assert [one.target for one in answer.undecided] == ["python://importlib.version"]


def test_a_backport_in_a_language_without_roots_is_not_excluded() -> None:
    backport = Builder(LIB)
    size = backport.node("util", "List.size", "method")
    owner = backport.node("util", "List", "type")
    backport.member(owner, "size", size)
    backport.alias("java://java.util.List", owner, claimed=False)
    answer = asked(size, backport, using("java://java.util.List.size"))
    assert [one.target for one in answer.undecided] == ["java://java.util.List.size"]
