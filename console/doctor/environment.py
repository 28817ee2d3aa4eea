"""What can be checked without asking anybody: versions, and the names of environment variables."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from importlib.metadata import version

from console.doctor.checks import Check, ok, warning
from runtime.settings import PREFIX, Settings, variable

AREA = "This command"

_SERVICE_LINK = re.compile(
    r"(_SERVICE_HOST|_SERVICE_PORT(_[A-Z0-9_]+)?|_PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$"
)
"""What Kubernetes sets in every container for a Service whose name begins with `sexton`."""


def check_environment(environment: Mapping[str, str]) -> Iterator[Check]:
    """Versions, and variables that look like settings and are none."""
    yield ok(AREA, "version", f"sexton {version('sexton')}, Python {platform.python_version()}")
    unknown = list(unknown_variables(environment))
    for name, close in unknown:
        meant = f"did you mean {close}?" if close else "docs/settings.md lists the settings"
        fix = f'export {close}="${name}"; unset {name}' if close else f"unset {name}"
        # No shell can take another name into its hands.
        fix = fix if name.isidentifier() else ""
        yield warning(AREA, "variables", f"{name} is not a setting and is ignored; {meant}", fix)
    if not unknown:
        ours = sum(name in _known() for name in environment)
        yield ok(AREA, "variables", f"{ours} set, none unknown")


def unknown_variables(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Variables that begin like a setting and are none, each with the setting of the closest name, or empty."""
    known = _known()
    for name in sorted(names):
        upper = name.upper()
        if upper.startswith(PREFIX) and upper not in known and not _SERVICE_LINK.search(upper):
            yield name, next(iter(get_close_matches(upper, known, n=1, cutoff=0.75)), "")


def _known() -> list[str]:
    return [variable(name) for name in Settings.model_fields]
