"""What a person may type, and the files that are handed to the command."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from console.plan import Target, parse_target
from console.story import read_manifests
from eno.errors import UsageError
from eno.selectors import LabelSelector, Operator
from tests.properties.strategies import DNS, ODD, TEXTS, repeatable, tried
from tests.support.factories import manifest

ARGUMENTS = TEXTS | ODD | st.binary(max_size=12).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
LINES = (
    ARGUMENTS.filter(lambda text: not set(text) & set("\n\r"))
    | st.just("kind: ConfigMap")
    | st.builds(lambda name: manifest(name=name), DNS)
)
LABEL = st.from_regex(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,6}[A-Za-z0-9])?", fullmatch=True)
LABELS = st.dictionaries(LABEL, LABEL, max_size=4)


@repeatable(300)
@given(ARGUMENTS | st.builds("{}/{}".format, ARGUMENTS | DNS, ARGUMENTS | DNS))
def test_any_argument_is_a_composition_or_refused_in_one_line(text: str) -> None:
    target = tried(lambda: parse_target(text), UsageError)
    assert isinstance(target, UsageError) or f"{target.namespace}/{target.name}" == text


@repeatable()
@given(DNS, DNS)
def test_a_composition_is_named_by_namespace_and_name(namespace: str, name: str) -> None:
    assert parse_target(f"{namespace}/{name}") == Target(namespace=namespace, name=name)


@repeatable()
@given(st.lists(LINES, max_size=5))
def test_any_file_is_a_list_of_manifests_or_refused_with_the_number_of_the_line(lines: list[str]) -> None:
    found = tried(lambda: read_manifests(lines, "file"), UsageError)
    if isinstance(found, UsageError):
        assert found.where.startswith("file")
        return
    assert [each.text for each in found] == [line.strip() for line in lines if line.strip()]
    assert all(json.loads(each.text)["metadata"]["name"] == each.head.id.name for each in found)


@repeatable()
@given(LABEL, st.lists(LABEL, min_size=1, max_size=3), st.sampled_from(["in", "notin"]), LABELS)
def test_a_set_selects_what_its_words_say(key: str, values: list[str], operator: str, labels: dict[str, str]) -> None:
    for labelled in (labels, {**labels, key: values[0]}):
        found = LabelSelector.parse(f"{key} {operator} ( {' , '.join(values)})").matches(labelled)
        assert found is ((labelled.get(key) in values) is (operator == "in"))


@repeatable()
@given(LABEL, LABEL, st.sampled_from(["=", "==", "!="]), LABELS, st.sampled_from(["", " "]))
def test_an_equality_selects_what_its_words_say(
    key: str, value: str, operator: str, labels: dict[str, str], blank: str
) -> None:
    for labelled in (labels, {**labels, key: value}):
        found = LabelSelector.parse(f"{key}{blank}{operator}{blank}{value}").matches(labelled)
        assert found is ((labelled.get(key) == value) is (operator != "!="))


@repeatable()
@given(st.lists(st.tuples(LABEL, LABEL), min_size=1, max_size=3), LABELS)
def test_all_parts_of_a_selector_have_to_agree(parts: list[tuple[str, str]], labels: dict[str, str]) -> None:
    selector = LabelSelector.parse(",".join(f"{key}={value}" for key, value in parts))
    assert [each.operator for each in selector.requirements] == [Operator.IN] * len(parts)
    assert selector.matches(labels) is all(labels.get(key) == value for key, value in parts)


@repeatable(400)
@given(ARGUMENTS | st.text(alphabet="ab=!,()/. in\tnot\n", max_size=16), LABELS)
def test_any_selector_is_refused_in_one_line_or_decides(text: str, labels: dict[str, str]) -> None:
    selector = tried(lambda: LabelSelector.parse(text), UsageError)
    assert isinstance(selector, UsageError) or isinstance(selector.matches(labels), bool)
