"""Guards of packing: which slice takes a tombstone, and which slice of that name is ours."""

from __future__ import annotations

from tests.simulation.mutation import Guard

GUARDS: tuple[Guard, ...] = (
    Guard(
        "a tombstone that fits no slice rejects the whole plan",
        "eno.packing:pack",
        "> limit:",
        "> 2**62:",
        "tests/unit/eno/test_packing.py::test_one_tombstone_over_the_limit_rejects_the_whole_plan",
    ),
    Guard(
        "what a slice holds already leaves less room",
        "eno.packing:pack",
        "limit - _occupied(each)",
        "limit",
        "overflow/undisturbed/",
    ),
    Guard(
        "a loaded slice takes no append",
        "eno.packing:pack",
        "if _appendable(each) else -1",
        "",
        "tests/unit/eno/test_packing.py::test_a_slice_that_was_loaded_already_takes_no_append",
    ),
    Guard(
        "a slice without room takes no append",
        "eno.packing:_Rooms.take",
        "return None",
        "pass",
        "tests/unit/eno/test_packing.py::test_tombstones_are_packed_first_fit_then_next_fit[one byte over does not]",
    ),
    Guard(
        "what was packed leaves less room",
        "eno.packing:_Rooms.take",
        "node, most[node] - size",
        "node, most[node]",
        "overflow/undisturbed/",
    ),
    Guard(
        "the first slice with room is the one that takes",
        "eno.packing:_Rooms.take",
        "if most[node] < size:\n                node += 1",
        "if most[node + 1] >= size:\n                node += 1",
        (
            "tests/unit/eno/test_packing.py::test_tombstones_are_packed_first_fit_then_next_fit[the first "
            "of two that fit]"
        ),
    ),
    Guard(
        "an overflow slice is not filled over its limit",
        "eno.packing:_next_fit",
        "if batch and total + size > limit:",
        "if False:",
        "overflow/undisturbed/",
    ),
    Guard(
        "bytes count, not characters",
        "eno.packing:_size",
        "len(manifest) if manifest.isascii() else len(manifest.encode())",
        "len(manifest)",
        (
            "tests/unit/eno/test_packing.py::test_tombstones_are_packed_first_fit_then_next_fit[bytes "
            "count, not characters]"
        ),
    ),
    Guard(
        "an overflow slice is marked, and so protected",
        "eno.packing:overflow_slice",
        'OVERFLOW_LABEL: "true", ',
        "",
        "overflow/crashes/c7:lost",
    ),
    Guard(
        "an overflow slice says which synthesis it is for",
        "eno.packing:overflow_slice",
        "SYNTHESIS_UUID_LABEL: uuid",
        "",
        "tests/unit/eno/test_packing.py::test_an_overflow_slice_is_owned_marked_and_protected",
    ),
    Guard(
        "an overflow slice is stamped with its synthesis",
        "eno.packing:overflow_slice",
        '"synthesisUUID": uuid',
        '"synthesisUUID": ""',
        "tests/unit/eno/test_packing.py::test_an_overflow_slice_is_owned_marked_and_protected",
    ),
    Guard(
        "an overflow slice is held until Eno has carried it out",
        "eno.packing:overflow_slice",
        "[CLEANUP_FINALIZER]",
        "[]",
        "tests/unit/eno/test_packing.py::test_an_overflow_slice_is_owned_marked_and_protected",
    ),
    Guard(
        "an overflow slice is controlled by its composition",
        "eno.packing:overflow_slice",
        '"controller": True,',
        "",
        "overflow/undisturbed/",
    ),
    Guard(
        "an overflow slice holds tombstones only",
        "eno.packing:overflow_slice",
        ', "deleted": True',
        "",
        "overflow/undisturbed/",
    ),
    Guard(
        "the name of an overflow slice tells compositions of one name apart",
        "eno.packing:_overflow_name",
        "{composition.uid}/{uuid}",
        "{uuid}",
        "tests/unit/eno/test_packing.py::test_the_name_of_an_overflow_slice_depends_on_uid_uuid_and_contents_only",
    ),
    Guard(
        "the name of an overflow slice tells syntheses apart",
        "eno.packing:_overflow_name",
        "{composition.uid}/{uuid}",
        "{composition.uid}",
        "overflow/eno/x7:published",
    ),
    Guard(
        "the name of an overflow slice tells its contents",
        "eno.packing:_overflow_name",
        "list(batch)",
        "[]",
        "overflow/undisturbed/",
    ),
    Guard(
        "a terminating slice is not taken for ours",
        "eno.packing:overflow_difference",
        "if existing.deleting:",
        "if False:",
        "tests/unit/eno/test_packing.py::test_an_existing_slice_counts_as_ours_only_when_identical",
    ),
    Guard(
        "a slice of another owner is not taken for ours",
        "eno.packing:overflow_difference",
        "if existing.owner is None or wanted.owner is None or existing.owner.uid != wanted.owner.uid:",
        "if False:",
        "tests/unit/workers/test_recover.py::test_an_overflow_slice_that_differs_is_never_overwritten[owner]",
    ),
    Guard(
        "a slice without the mark is not taken for ours",
        "eno.packing:overflow_difference",
        'if existing.labels.get(OVERFLOW_LABEL) != "true":',
        "if False:",
        "tests/unit/workers/test_recover.py::test_an_overflow_slice_that_differs_is_never_overwritten[marker]",
    ),
    Guard(
        "a slice with another content is not taken for ours",
        "eno.packing:overflow_difference",
        "if existing.spec != wanted.spec:",
        "if False:",
        "tests/unit/workers/test_recover.py::test_an_overflow_slice_that_differs_is_never_overwritten[content]",
    ),
    Guard(
        "a long name is cut to what a server takes",
        "eno.packing:fit_name",
        'prefix if len(prefix) <= room else prefix[:room].rstrip(".-")',
        "prefix",
        "tests/unit/eno/test_packing.py::test_names_are_cut_to_253_characters[cut]",
    ),
    Guard(
        "a name that is cut ends in no separator",
        "eno.packing:fit_name",
        '.rstrip(".-")',
        "",
        "tests/unit/eno/test_packing.py::test_names_are_cut_to_253_characters[a trailing dot goes]",
    ),
)
