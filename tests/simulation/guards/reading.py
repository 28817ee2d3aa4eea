"""Guards of what is read: slices, lineages and siblings whole or not at all, objects and times as they are."""

from __future__ import annotations

from tests.simulation.mutation import Guard

GUARDS: tuple[Guard, ...] = (
    Guard(
        "a reference without a name is no missing slice",
        "workers.reading:read_slices",
        "if len(named) < len(names):",
        "if False:",
        "tests/unit/workers/test_recover.py::test_an_incomplete_synthesis_is_never_taken_for_absence[nameless]",
    ),
    Guard(
        "a terminating slice makes a synthesis incomplete",
        "workers.reading:read_slices",
        "if each.deleting and not accept_terminating:",
        "if False:",
        "tests/unit/workers/test_recover.py::test_an_incomplete_synthesis_is_never_taken_for_absence[terminating]",
    ),
    Guard(
        "a slice that is referenced twice is read once",
        "workers.reading:read_slices",
        "dict.fromkeys(composition.current.slice_names if composition.current else ())",
        "list(composition.current.slice_names if composition.current else ())",
        "tests/unit/workers/test_recover.py::test_a_slice_that_is_referenced_twice_is_read_once",
    ),
    Guard(
        "slices that do not count are not read",
        "workers.reading:read_states",
        " or skips_slices(composition)",
        "",
        "tests/unit/workers/test_gate.py::test_slices_of_a_symphony_that_is_deleting_are_not_even_read",
    ),
    Guard(
        "only a 404 makes a slice missing",
        "workers.reading:read_states",
        "except NotFound:",
        "except Exception:",
        (
            "tests/unit/workers/test_gate.py::test_a_slice_that_cannot_be_read_stops_the_pass_and_is_not_tak"
            "en_for_missing[ServerError]"
        ),
    ),
    Guard(
        "a reference without a name is a hole",
        "workers.reading:read_states",
        "found.append(Hole.NAMELESS)",
        "pass",
        "tests/unit/workers/test_gate.py::test_a_nameless_reference_is_not_waited_for",
    ),
    Guard(
        "a missing slice is a hole",
        "workers.reading:read_states",
        "found.append(Hole.MISSING)",
        "pass",
        "recreated/eno/b0:act=slice-lost",
    ),
    Guard(
        "an inventory is read whole or not at all",
        "workers.reading:list_inventory",
        "list_all(cluster, query, page_size=INVENTORY_PAGE).items",
        "cluster.list_page(query, limit=INVENTORY_PAGE).items",
        "recreated/errors/c1:cut-410",
    ),
    Guard(
        "an inventory is that of one lineage",
        "workers.reading:list_inventory",
        ", label_selector=selector",
        "",
        "tests/unit/workers/test_recover.py::test_history_of_another_lineage_is_not_read",
    ),
    Guard(
        "the compositions of a namespace are listed whole or not at all",
        "workers.reading:Neighbours._listing",
        "list_all(self._cluster, Query(COMPOSITIONS, self._composition.namespace))",
        'Listing(self._cluster.list_page(Query(COMPOSITIONS, self._composition.namespace)).items, "")',
        "tests/unit/workers/test_recover.py::test_a_sibling_beyond_the_first_page_is_a_sibling",
    ),
    Guard(
        "by the earlier of two clocks nothing is older than it is",
        "workers.reading:Neighbours.earliest",
        "min(now, self._listing.date or now)",
        "now",
        "tests/unit/workers/test_recover.py::test_a_clock_that_is_ahead_makes_no_composition_older",
    ),
    Guard(
        "what stands in a terminating slice of a sibling is still wanted",
        "workers.reading:Neighbours.current_manifests",
        ", accept_terminating=True",
        "",
        "tests/unit/workers/test_recover.py::test_what_stands_in_a_terminating_slice_of_a_sibling_is_still_wanted",
    ),
    Guard(
        "what a synthesized sibling owned once it does not own for ever",
        "workers.reading:Neighbours.remembered",
        "if not _synthesized(each):",
        "if True:",
        "tests/unit/workers/test_recover.py::test_what_a_synthesized_sibling_owned_once_it_does_not_own_for_ever",
    ),
    Guard(
        "what a sibling without a synthesis owns is remembered",
        "workers.reading:Neighbours.remembered",
        "if not _synthesized(each):",
        "if False:",
        (
            "tests/unit/workers/test_recover.py::test_what_an_unsynthesized_sibling_is_remembered_to_own_is_"
            "never_in_the_plan[no synthesis]"
        ),
    ),
    Guard(
        "a composition whose synthesizer cannot be told may be a sibling",
        "workers.reading:_has_another",
        "return False",
        "return True",
        (
            "tests/unit/workers/test_recover.py::test_a_composition_whose_synthesizer_cannot_be_told_may_be_"
            "a_sibling[none]"
        ),
    ),
    Guard(
        "a sibling whose synthesis is not complete owns what it is remembered to own",
        "workers.reading:_synthesized",
        " and composition.current.synthesized is not None",
        "",
        (
            "tests/unit/workers/test_recover.py::test_what_an_unsynthesized_sibling_is_remembered_to_own_is_"
            "never_in_the_plan[an incomplete synthesis]"
        ),
    ),
    Guard(
        "labels that are null are none",
        "eno.objects:_absent_if_null",
        "{} if value is None else value",
        "value",
        "tests/unit/eno/test_objects.py::test_absent_fields_are_absent",
    ),
    Guard(
        "slices that are null are none",
        "eno.objects:_empty_if_null",
        "[] if value is None else value",
        "value",
        "tests/unit/eno/test_objects.py::test_null_and_nameless_references_are_kept_as_holes[null]",
    ),
    Guard(
        "a reference without a name is kept as a hole",
        "eno.objects:Synthesis.slice_names",
        "for reference in self.resource_slices",
        "for reference in self.resource_slices if reference and reference.name",
        "tests/unit/eno/test_objects.py::test_null_and_nameless_references_are_kept_as_holes[holes]",
    ),
    Guard(
        "a malformed object is named, and no traceback",
        "eno.objects:ObjectView.from_json",
        "except ValidationError as error:",
        "except ZeroDivisionError as error:",
        "tests/unit/eno/test_objects.py::test_a_malformed_object_is_named_with_the_first_bad_field[uuid]",
    ),
    Guard(
        "exactly true is an opt-in",
        "eno.objects:Composition.opted_in",
        'self.annotations.get(OPT_IN_ANNOTATION) == "true"',
        'self.annotations.get(OPT_IN_ANNOTATION, "").strip().lower() == "true"',
        (
            "tests/unit/eno/test_decision.py::test_a_decision_is_due_for_a_synthesized_opted_in_undecided_co"
            "mposition[True is not true]"
        ),
    ),
    Guard(
        "a request for a resynthesis names the synthesis in flight",
        "eno.objects:Composition.latest_uuid",
        "(self.in_flight, self.current)",
        "(self.current,)",
        "tests/unit/eno/test_objects.py::test_the_latest_uuid_is_in_flight_else_current[in_flight0-current0-b]",
    ),
    Guard(
        "an owner that does not control a slice does not own it",
        "eno.objects:ResourceSlice.owner",
        "owner.controller and ",
        "",
        "tests/unit/eno/test_objects.py::test_the_owner_is_the_controlling_composition[not the controller]",
    ),
    Guard(
        "an owner of another kind does not own a slice",
        "eno.objects:ResourceSlice.owner",
        'owner.kind == "Composition" and ',
        "",
        "tests/unit/eno/test_objects.py::test_the_owner_is_the_controlling_composition[another kind]",
    ),
    Guard(
        "a Composition of another group does not own a slice",
        "eno.objects:ResourceSlice.owner",
        " and owner.group == GROUP",
        "",
        "tests/unit/eno/test_objects.py::test_the_owner_is_the_controlling_composition[another group]",
    ),
    Guard(
        "an absurd time in an object is bounded",
        "eno.times:bounded",
        "min(max(instant, EARLIEST), LATEST).astimezone(UTC)",
        "instant",
        (
            "tests/unit/eno/test_objects.py::test_an_absurd_time_in_an_object_is_bounded_so_that_sums_with_i"
            "t_exist[0001-01-01T00:00:00Z-1970]"
        ),
    ),
    Guard(
        "a time is bounded before it is converted",
        "eno.times:bounded",
        "min(max(instant, EARLIEST), LATEST).astimezone(UTC)",
        "min(max(instant.astimezone(UTC), EARLIEST), LATEST)",
        (
            "tests/unit/eno/test_objects.py::test_an_absurd_time_in_an_object_is_bounded_so_that_sums_with_i"
            "t_exist[0001-01-01T00:00:00+05:00-1970]"
        ),
    ),
    Guard(
        "a time with something behind it is none",
        "eno.times:parse_time",
        "fullmatch",
        "match",
        "tests/unit/eno/test_objects.py::test_other_notations_are_refused[2026-03-01T11:00:00Z and more]",
    ),
    Guard(
        "an absurd time in an annotation is refused",
        "eno.times:parse_time",
        "if not EARLIEST <= instant <= LATEST:",
        "if False:",
        "tests/unit/eno/test_objects.py::test_an_absurd_time_in_an_annotation_is_refused[1969-12-31T23:59:59Z]",
    ),
    Guard(
        "an offset may be a small z",
        "eno.times:parse_time",
        "offset.upper()",
        "offset",
        "tests/unit/eno/test_objects.py::test_times_are_rfc_3339[2026-03-01T11:00:00z-instant2]",
    ),
    Guard(
        "times are written in UTC",
        "eno.times:format_time",
        "instant.astimezone(UTC)",
        "instant",
        "tests/unit/eno/test_objects.py::test_times_are_written_in_utc",
    ),
)
