"""The image, without Docker: what the Dockerfile says, what it installs, and that nothing else is needed."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.deploy.image import ROOT, Image, built_image, context, read_stages

PIN = re.compile(r"^([a-z0-9][a-z0-9._-]*)(?:\[[^\]]*\])?==(\S+)", re.MULTILINE)
REGISTRY = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+(:\d+)?/|https?://")


def pins(path: str) -> dict[str, str]:
    """Name and version of everything in a lock."""
    return dict(PIN.findall((ROOT / path).read_text(encoding="utf-8")))


def named(requirements: list[str]) -> set[str]:
    """The names of requirements, as locks write them."""
    return {re.split(r"[<>=\[; ]", each, maxsplit=1)[0].lower().replace("_", "-") for each in requirements}


def test_the_image_holds_what_the_tests_ran_with() -> None:
    ours, all_of_them = pins("deploy/requirements.lock"), pins("requirements.lock")
    assert ours
    assert ours.items() <= all_of_them.items()


def test_the_image_holds_what_runs_and_nothing_to_develop_with() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {extra: named(requirements) for extra, requirements in project["optional-dependencies"].items()}
    wanted = named(project["dependencies"]) | extras["flower"] | extras["build"]
    locked = set(pins("deploy/requirements.lock"))
    assert wanted <= locked
    assert locked.isdisjoint(extras["dev"] | extras["bench"] | extras["demo"])


@pytest.mark.parametrize("path", ["deploy/requirements.lock", "requirements.lock"])
def test_a_lock_names_no_index_and_hashes_everything(path: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    assert not REGISTRY.search(text)
    assert not re.search(r"^-", text, re.MULTILINE), "options belong to whoever installs"
    entries = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)
    assert all("--hash=sha256:" in entry for entry in entries if PIN.match(entry))


def test_the_image_is_built_in_one_stage_and_runs_in_another_as_nobody() -> None:
    build, final = read_stages()
    assert build.name == "build"
    assert build.base == final.base, "a virtual environment runs with the Python that made it"
    assert final.all("COPY") == ["--from=build /venv /venv"]
    assert final.all("USER") == ["65532:65532"], "a number: Kubernetes cannot tell who a name is (runAsNonRoot)"
    assert final.instructions[-2][0] == "USER", "nothing but CMD comes after it"
    assert not final.all("ENTRYPOINT"), "the manifests and the compose file say the whole command"
    assert final.environment["PATH"].split(":")[0] == "/venv/bin"


def test_the_user_and_its_group_have_names() -> None:
    (line,) = read_stages()[-1].all("RUN")
    assert "groupadd --gid 65532 " in line, "Celery takes a group without a name for root's"
    assert "useradd --uid 65532 --gid 65532 " in line


def test_what_is_installed_is_hashed_and_nothing_is_compiled() -> None:
    build, final = read_stages()
    installs = [line for line in build.all("RUN") if "pip install" in line]
    assert len(installs) == 2
    assert all(option in installs[0] for option in ("--require-hashes", "--only-binary :all:", "--no-cache-dir"))
    assert all(option in installs[1] for option in ("--no-deps", "--no-build-isolation", "--no-cache-dir"))
    words = " ".join(rest for stage in (build, final) for _, rest in stage.instructions)
    assert not re.search(r"\b(apt|apt-get|gcc|g\+\+|make|build-essential|curl|wget)\b", words)


def test_bases_have_a_version_and_no_registry() -> None:
    for stage in read_stages():
        assert re.fullmatch(r"python:3\.\d+-slim", stage.base)
    assert not REGISTRY.search((ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8"))


def test_the_build_sees_sources_only() -> None:
    found = set(context())
    tops = {path.parts[0] for path in found}
    hatch = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]
    packages = set(hatch["build"]["targets"]["wheel"]["packages"])
    assert tops == packages | {"pyproject.toml", "README.md", "LICENSE", "deploy"}
    assert not [path for path in found if path.suffix == ".pyc"]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """What the Dockerfile's build stage leaves."""
    return built_image(tmp_path_factory)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["sexton", "version"], "0.1"),
        (["python", "-m", "watcher", "--help"], "usage: python -m watcher"),
        (["python", "-m", "devcluster", "--help"], "usage: python -m devcluster"),
        (["celery", "-A", "workers", "worker", "--help"], "--concurrency"),
        (["celery", "-A", "workers", "flower", "--help"], "celery flower"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_every_process_is_in_the_image(image: Image, tmp_path: Path, words: list[str], says: str) -> None:
    assert says in printed(image, tmp_path, *words)
    assert not list(tmp_path.iterdir())


def printed(image: Image, directory: Path, program: str, *arguments: str) -> str:
    """What a command of the image prints, run somewhere else than in the clone and without a home."""
    environment = image.environment | {"POD_NAMESPACE": "eno", "HOME": "/dev/null"}
    done = subprocess.run(
        [image.program(program), *arguments], cwd=directory, env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_project_comes_from_the_image_and_not_from_the_clone(image: Image, tmp_path: Path) -> None:
    code = "import eno, workers, devcluster; print(eno.__file__, workers.__file__, devcluster.__file__, sep='\\n')"
    files = [Path(line) for line in printed(image, tmp_path, "python", "-c", code).splitlines()]
    assert len(files) == 3
    assert all(file.is_relative_to(image.venv) for file in files)
