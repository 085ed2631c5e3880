"""Files that are not the canonical encoding of a bundle."""

from __future__ import annotations

from typing import Any

import positive
from forge import (
    changed,
    on_statement,
    rejected,
)
from positive import Case


@rejected("unknown-field")
def unknown_field() -> Case:
    return changed(positive.relation(), lambda parts: parts.update(comment="trust me"))


@rejected("unknown-field")
def unknown_field_in_a_header() -> Case:
    return changed(positive.relation(), lambda parts: parts["entries"][0]["header"].update(verified=True))


@rejected("missing-field")
def missing_field() -> Case:
    return changed(positive.relation(), lambda parts: parts["statement"].pop("undecided"))


@rejected("duplicate-key")
def duplicate_json_key() -> Case:
    base = positive.relation()
    return Case(base.bundle.replace('"at":"head"', '"at":"commits","at":"head"', 1), base.trust)


@rejected("not-canonical-hex")
def upper_case_hex() -> Case:
    def change(parts: dict[str, Any]) -> None:
        header = parts["entries"][0]["header"]
        header["source"] = header["source"].upper()

    return changed(positive.relation(), change)


@rejected("wrong-type")
def boolean_for_an_integer() -> Case:
    return changed(positive.relation(), lambda parts: parts["entries"][0].update(checkpoint=False))


@rejected("integer-range")
def integer_beyond_2_to_the_53() -> Case:
    return changed(positive.relation(), lambda parts: parts["entries"][0]["header"].update(time=2**53))


@rejected("wrong-type")
def float_for_an_integer() -> Case:
    base = positive.relation()
    return Case(base.bundle.replace('"epoch":0', '"epoch":0.0', 1), base.trust)


@rejected("not-base64")
def base64_with_slack_bits() -> Case:
    def change(parts: dict[str, Any]) -> None:
        proof = parts["graphs"][0]["branches"][0][2]
        assert proof.endswith("=")
        body = proof.rstrip("=")
        alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
        slack = alphabet[alphabet.index(body[-1]) | 1]
        parts["graphs"][0]["branches"][0][2] = body[:-1] + slack + "=" * (len(proof) - len(body))

    return changed(positive.relation(), change)


@rejected("unknown-value")
def bundle_from_the_future() -> Case:
    return changed(positive.relation(), lambda parts: parts.update(format="knowing-bundle/v2"))


@rejected("unknown-value")
def unknown_edge_type() -> Case:
    return on_statement(positive.relation, lambda statement: statement.update(types=["likes"]))


@rejected("not-canonical-url")
def repository_url_in_another_spelling() -> Case:
    def change(statement: dict[str, Any]) -> None:
        statement["scope"][0]["repository"] = "https://github.com/Acme/payments.git"

    return on_statement(positive.relation, change)


@rejected("invalid-name")
def path_in_another_spelling() -> Case:
    return on_statement(
        positive.relation_across_repositories, lambda statement: statement.update(via="python://payments.%63harge")
    )


@rejected("not-json")
def truncated_file() -> Case:
    base = positive.relation()
    return Case(base.bundle[: len(base.bundle) // 2], base.trust)


@rejected("too-deep")
def deeply_nested_file() -> Case:
    return Case("[" * 20000 + "]" * 20000, positive.relation().trust)


@rejected("not-json")
def empty_file() -> Case:
    return Case("", positive.relation().trust)


@rejected("scope-order")
def repository_named_twice() -> Case:
    def change(statement: dict[str, Any]) -> None:
        statement["scope"].append(statement["scope"][0])

    return on_statement(positive.relation, change)
