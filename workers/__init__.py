"""The worker pool: what is done about a composition, one task at a time.

`celery -A workers worker` finds the application here. It is made when it is asked for, so that importing the
package reads no settings.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    if name != "celery":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from workers.app import program_app

    globals()[name] = program_app()
    return globals()[name]
