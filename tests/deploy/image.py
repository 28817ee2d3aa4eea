"""deploy/Dockerfile, read; and its build stage carried out without Docker."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD_SECONDS = 280.0


@dataclass(frozen=True)
class Stage:
    """One stage: what it begins from, its name, and its instructions with their words."""

    base: str
    name: str
    instructions: tuple[tuple[str, str], ...]

    def all(self, instruction: str) -> list[str]:
        """What follows each occurrence of an instruction."""
        return [rest for name, rest in self.instructions if name == instruction]

    @property
    def environment(self) -> dict[str, str]:
        """Its ENV."""
        return dict(word.split("=", 1) for rest in self.all("ENV") for word in shlex.split(rest))


@dataclass(frozen=True)
class Image:
    """The virtual environment of the image, its files when it was made, and the ENV of its processes."""

    venv: Path
    environment: dict[str, str]
    files: set[Path] = field(default_factory=set)

    def program(self, name: str) -> str:
        """One of its own commands. Raises AssertionError when it has none of this name."""
        path = self.venv / "bin" / name
        assert path.exists(), f"the image has no {name}"
        return str(path)


def read_stages() -> list[Stage]:
    """The stages in order."""
    text = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line.strip() and not line.startswith("#")]
    starts = [index for index, (name, _) in enumerate(lines) if name == "FROM"]
    assert starts[0] == 0
    found = []
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        base, _, name = lines[start][1].partition(" AS ")
        found.append(Stage(base, name, tuple((name, rest) for name, rest in lines[start + 1 : end])))
    return found


def context() -> Iterator[Path]:
    """The files that the build sees: .dockerignore refuses everything but what it names."""
    first, *rules = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert first == "*"
    refused = {rule.removeprefix("**/") for rule in rules if not rule.startswith("!")}
    for rule in rules:
        allowed = ROOT / rule.removeprefix("!")
        if rule.startswith("!"):
            for path in [allowed] if allowed.is_file() else allowed.rglob("*"):
                if path.is_file() and refused.isdisjoint(path.parts):
                    yield path.relative_to(ROOT)


def built_image(factory: pytest.TempPathFactory) -> Image:
    """What the build stage leaves, made once per run with this Python, anywhere but in the clone."""
    return _build(factory.getbasetemp() / "image")


@cache
def _build(directory: Path) -> Image:
    directory.mkdir()
    build, final = read_stages()
    for name, rest in build.instructions:
        if name == "COPY":
            _copy(rest.split()[0], directory / "src")
        elif name == "RUN":
            _run(rest, directory)
    image = Image(directory / "venv", final.environment)
    image.environment["PATH"] = f"{image.venv / 'bin'}:/usr/bin:/bin"
    image.files.update(image.venv.rglob("*"))
    return image


def _copy(source: str, destination: Path) -> None:
    found = [path for path in context() if source == "." or path == Path(source)]
    assert found, f"nothing to copy: {source}"
    for path in found:
        (destination / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, destination / path)


def _run(line: str, directory: Path) -> None:
    words = re.sub(r"(?<!\S)/venv", str(directory / "venv"), line.replace("--no-cache-dir ", "")).split()
    if words[0] == "python":
        words[0] = sys.executable
    (directory / "src").mkdir(exist_ok=True)
    done = subprocess.run(words, cwd=directory / "src", capture_output=True, text=True, timeout=BUILD_SECONDS)
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
