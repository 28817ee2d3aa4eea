"""The ways in which a request is refused, as `Space.refused(...).summary` gives them."""

from __future__ import annotations

from typing import TypeAlias

from eno import errors
from eno.errors import ApiError

Summary: TypeAlias = tuple[type[ApiError], int, str]

BAD_REQUEST: Summary = (errors.Refused, 400, "BadRequest")
NOT_FOUND: Summary = (errors.NotFound, 404, "NotFound")
FORBIDDEN: Summary = (errors.Forbidden, 403, "Forbidden")
NAMESPACE_TERMINATING: Summary = (errors.NamespaceTerminating, 403, "Forbidden")
ALREADY_EXISTS: Summary = (errors.AlreadyExists, 409, "AlreadyExists")
CONFLICT: Summary = (errors.Conflict, 409, "Conflict")
EXPIRED: Summary = (errors.Expired, 410, "Expired")
TOO_LARGE: Summary = (errors.Refused, 413, "RequestEntityTooLarge")
INVALID: Summary = (errors.Invalid, 422, "Invalid")
INTERNAL: Summary = (errors.ServerError, 500, "")
NOT_YET: Summary = (errors.Expired, 504, "Timeout")
