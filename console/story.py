"""What the demo plays: a history of manifests, and the part of them that the recreated composition still has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from console import shop
from eno.errors import MalformedManifest, UsageError
from eno.identity import Head, ResourceId, Wanted, parse_head
from eno.selectors import LabelSelector, Operator

_YAML = re.compile(r"---|#|%YAML|- |[A-Za-z]+:(\s|$)")
"""How the first line of a YAML file begins."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest as it goes into a slice, and its head."""

    text: str
    head: Head


@dataclass(frozen=True, slots=True)
class Story:
    """`history` is what was once there, `kept` the part of it that is wanted now."""

    history: tuple[Manifest, ...]
    kept: tuple[Manifest, ...]

    @property
    def resources_kept(self) -> int:
        """How many resources are still wanted, however often the file names them."""
        return len({(manifest.head.is_patch, manifest.head.id) for manifest in self.kept})

    @property
    def discontinued(self) -> frozenset[ResourceId]:
        """What was owned and is no longer wanted."""
        wanted = Wanted(manifest.head.id for manifest in self.kept)
        return owned(manifest for manifest in self.history if manifest.head.id not in wanted)


def owned(manifests: Iterable[Manifest]) -> frozenset[ResourceId]:
    """The resources that belong to whoever has these manifests: a Patch, or what Eno does not manage, does not."""
    heads = (manifest.head for manifest in manifests)
    return frozenset(head.id for head in heads if head.managed and not head.is_patch)


def tell(path: Path | None, without: str | None) -> Story:
    """The story of a file of manifests, or of the built-in shop without `path`.

    Raises UsageError when there is no such story: an unreadable file, a malformed line (named), a selector that
    is not `key=value` or that selects nothing.
    """
    if path is None:
        manifests = read_manifests(shop.manifests(), "the built-in manifests")
        return _without(manifests, without or shop.WITHOUT, "the built-in manifests")
    if without is None:
        raise UsageError("--manifests needs --without", hint="name the label of what was discontinued: KEY=VALUE")
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path)) from error
    except UnicodeDecodeError as error:
        raise UsageError("is not UTF-8", where=str(path)) from error
    return _without(read_manifests(lines, str(path)), without, str(path))


def read_manifests(lines: Iterable[str], where: str) -> list[Manifest]:
    """One manifest a line, blank lines skipped. Raises UsageError, naming the line."""
    manifests = []
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text:
            continue
        try:
            manifests.append(Manifest(text, parse_head(text)))
        except MalformedManifest as error:
            raise UsageError(error.what, where=f"{where}:{number}", hint=_hint(text, where)) from error
    if not manifests:
        raise UsageError("holds no manifests", where=where, hint="one JSON manifest a line")
    return manifests


def _hint(line: str, where: str) -> str:
    if _YAML.match(line):
        return f"it looks like YAML: yq -o=json -I=0 . {where} writes one JSON manifest a line"
    return "one JSON manifest a line"


def _without(history: Sequence[Manifest], without: str, where: str) -> Story:
    selector = LabelSelector.parse(without)
    operators = [requirement.operator for requirement in selector.requirements]
    if operators != [Operator.IN]:
        raise UsageError(f"--without {without!r} is not one label", hint="write KEY=VALUE")
    kept = tuple(manifest for manifest in history if not selector.matches(manifest.head.labels))
    if len(kept) == len(history):
        raise UsageError(f"no manifest carries the label {without}", where=where, hint="nothing would be buried")
    story = Story(tuple(history), kept)
    if not story.discontinued:
        raise UsageError(f"nothing that carries the label {without} was owned", where=where)
    return story
