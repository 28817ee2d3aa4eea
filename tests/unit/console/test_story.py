"""What the demo accepts as a story, and what it refuses before anything is started."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from console.story import tell
from eno.errors import UsageError
from eno.identity import ResourceId


def manifest(name: str = "web", *, kind: str = "ConfigMap", app: str = "shop", **metadata: Any) -> dict[str, Any]:
    labels = {"app": app}
    return {
        "apiVersion": "eno.azure.io/v1" if kind == "Patch" else "v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default", "labels": labels, **metadata},
    }


def written(path: Path, *bodies: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(body) + "\n" for body in bodies))
    return path


def test_without_a_file_the_shop_loses_its_newsletter() -> None:
    story = tell(None, None)

    assert len(story.history) == 49
    assert len(story.discontinued) == 8
    assert {identity.name for identity in story.discontinued} == {
        "newsletter",
        "newsletter-credentials",
        "shop:newsletter",
    }


def test_another_component_of_the_shop_can_be_discontinued() -> None:
    assert len(tell(None, "app.kubernetes.io/name=cart").discontinued) == 8


def test_history_is_the_whole_file_and_the_rest_is_kept(tmp_path: Path) -> None:
    path = written(tmp_path / "all.jsonl", manifest("a", app="old"), manifest("b"), manifest("c"))

    story = tell(path, "app=old")

    assert [each.head.id.name for each in story.history] == ["a", "b", "c"]
    assert [each.head.id.name for each in story.kept] == ["b", "c"]
    assert story.discontinued == {ResourceId("", "ConfigMap", "default", "a")}


def test_blank_lines_are_skipped_and_carriage_returns_are_not_content(tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    path.write_bytes(f"\r\n{json.dumps(manifest('a', app='old'))}\r\n\n{json.dumps(manifest('b'))}".encode())

    assert len(tell(path, "app=old").history) == 2


def test_a_line_separator_inside_a_string_does_not_end_the_line(tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    body = manifest("a", app="old", annotations={"note": "one\u2028two\x85three"})
    path.write_text(json.dumps(body, ensure_ascii=False) + "\n" + json.dumps(manifest("b")), encoding="utf-8")

    assert len(tell(path, "app=old").history) == 2


def test_what_eno_never_owned_is_not_missed(tmp_path: Path) -> None:
    path = written(
        tmp_path / "all.jsonl",
        manifest("a", app="old"),
        manifest("b", app="old", annotations={"eno.azure.io/disable-reconciliation": "true"}),
        manifest("c", app="old", kind="Patch") | {"patch": {"apiVersion": "v1", "kind": "Secret"}},
        manifest("d"),
    )

    assert {identity.name for identity in tell(path, "app=old").discontinued} == {"a"}


def test_a_resource_that_a_kept_manifest_still_names_is_not_missed(tmp_path: Path) -> None:
    path = written(tmp_path / "all.jsonl", manifest("a", app="old"), manifest("a", app="new"), manifest("b", app="old"))

    assert {identity.name for identity in tell(path, "app=old").discontinued} == {"b"}


def test_a_resource_that_is_named_twice_is_kept_once(tmp_path: Path) -> None:
    twice = [manifest("b"), manifest("b"), manifest("c"), manifest("c", kind="Secret")]
    story = tell(written(tmp_path / "all.jsonl", manifest("a", app="old"), *twice), "app=old")

    assert (len(story.kept), story.resources_kept) == (4, 3)


@pytest.mark.parametrize(
    "text",
    [
        "---\napiVersion: v1\n",
        "apiVersion: v1\nkind: ConfigMap\n",
        "# from the chart\nkind: A\n",
        "- apiVersion: v1\n",
    ],
)
def test_yaml_is_told_how_to_become_json_lines(tmp_path: Path, text: str) -> None:
    path = tmp_path / "all.yaml"
    path.write_text(text)

    with pytest.raises(
        UsageError, match=f"it looks like YAML: yq -o=json -I=0 . {path} writes one JSON manifest a line"
    ):
        tell(path, "app=old")


def test_broken_json_is_not_taken_for_yaml(tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    path.write_text('{"kind": "A"\n')

    with pytest.raises(UsageError) as raised:
        tell(path, "app=old")

    assert "YAML" not in str(raised.value)


@pytest.mark.parametrize(
    ("content", "without", "message"),
    [
        pytest.param(b"", "app=old", "holds no manifests", id="an empty file"),
        pytest.param(b"\n \n", "app=old", "holds no manifests", id="a file of blank lines"),
        pytest.param(b"\n{nope\n", "app=old", "all.jsonl:2: malformed manifest", id="a line that is not JSON"),
        pytest.param(b"[1]\n", "app=old", "all.jsonl:1: malformed manifest", id="a line that is no object"),
        pytest.param(b'{"kind":"A"}\n', "app=old", "all.jsonl:1: malformed", id="a manifest without a version"),
        pytest.param(b"\xff\xfe\n", "app=old", "is not UTF-8", id="a file in another encoding"),
        pytest.param(None, "app=none", "no manifest carries the label app=none", id="a label nobody carries"),
        pytest.param(None, "app", "is not one label", id="a key without a value"),
        pytest.param(None, "", "is not one label", id="an empty selector"),
        pytest.param(None, "app!=old", "is not one label", id="a negated label"),
        pytest.param(None, "app=a,app=b", "is not one label", id="two labels"),
        pytest.param(None, "a b=c", "cannot be parsed", id="a key that is no label key"),
        pytest.param(None, None, "--manifests needs --without", id="no label at all"),
    ],
)
def test_a_story_that_cannot_be_told_is_a_usage_error(
    tmp_path: Path, content: bytes | None, without: str | None, message: str
) -> None:
    path = tmp_path / "all.jsonl"
    path.write_bytes(json.dumps(manifest(app="old")).encode() if content is None else content)

    with pytest.raises(UsageError, match=message) as raised:
        tell(path, without)

    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("missing", [True, False], ids=["a file that is missing", "a directory"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, missing: bool) -> None:
    path = tmp_path / "missing.jsonl" if missing else tmp_path

    with pytest.raises(UsageError, match=f"{path}: cannot be read"):
        tell(path, "app=old")


def test_a_label_that_only_unowned_manifests_carry_buries_nothing(tmp_path: Path) -> None:
    unmanaged = manifest("a", app="old", annotations={"eno.azure.io/disable-reconciliation": "true"})

    with pytest.raises(UsageError, match="nothing that carries the label app=old was owned"):
        tell(written(tmp_path / "all.jsonl", unmanaged, manifest("b")), "app=old")
