"""Guards of the writes of recover: append, overflow slices, the decision's status."""

from __future__ import annotations

from tests.simulation.mutation import Guard

GUARDS: tuple[Guard, ...] = (
    Guard(
        "a slice is published once",
        "workers.publishing:publish",
        "if name not in composition.current.slice_names",
        "",
        "tests/unit/workers/test_publishing.py::test_a_new_slice_is_appended_once_and_existing_references_stay",
    ),
    Guard(
        "the references that are there stay",
        "workers.publishing:publish",
        '[*present, *({"name": name} for name in added)]',
        '[{"name": name} for name in added]',
        "overflow/undisturbed/",
    ),
    Guard(
        "a decision is bound to the current synthesis",
        "workers.publishing:publish",
        ", expect={_UUID: composition.current.uuid}",
        "",
        (
            "tests/unit/workers/test_recover.py::test_a_decision_is_published_under_tests_of_uid_version_and"
            "_current_uuid"
        ),
    ),
    Guard(
        "a decision that the server has dropped is not taken for published",
        "workers.publishing:publish",
        'if stored.json["status"]["currentSynthesis"].get("tombstoneRecoveryStatus") != wanted:',
        "if False:",
        (
            "tests/unit/workers/test_recover.py::test_a_crd_without_the_fields_is_terminal_with_the_line_tha"
            "t_fixes_it[prunes unknown fields]"
        ),
    ),
    Guard(
        "a decision is bound to the composition that was read",
        "workers.publishing:publish",
        "stored = _patch(cluster, live, operations)",
        "stored = _patch(cluster, live, operations[2:])",
        "first/undisturbed/",
    ),
    Guard(
        "the same instant in another notation is no change",
        "workers.publishing:publish_readiness",
        "elif wanted != stored:",
        "else:",
        "tests/unit/workers/test_gate.py::test_the_same_instant_in_another_notation_is_no_change",
    ),
    Guard(
        "readiness that does not hold is cleared",
        "workers.publishing:publish_readiness",
        "clear.append((*_CURRENT, field))",
        "pass",
        "tests/unit/workers/test_gate.py::test_what_somebody_else_sets_is_cleared_even_before_the_synthesis",
    ),
    Guard(
        "an error in the summary goes when its cause is gone",
        "workers.publishing:publish_readiness",
        "clear.append(_SIMPLIFIED_ERROR)",
        "pass",
        "tests/unit/workers/test_gate.py::test_a_simplified_error_goes_when_its_cause_is_gone",
    ),
    Guard(
        "an error in the summary that is not ours is left alone",
        "workers.publishing:publish_readiness",
        "elif verdict.error is not None:",
        "else:",
        (
            "tests/unit/workers/test_gate.py::test_the_simplified_error_is_the_greatest_while_reconciling[un"
            "decided-anything else is not ours]"
        ),
    ),
    Guard(
        "a verdict is bound to the current synthesis",
        "workers.publishing:publish_readiness",
        'expect = {_UUID: composition.current.uuid} if "uuid" in live.json["status"]["currentSynthesis"] else {}',
        "expect = {}",
        (
            "tests/unit/workers/test_gate.py::test_reconciled_and_ready_follow_from_the_states_in_one_guarde"
            "d_patch_of_exactly_these_fields"
        ),
    ),
    Guard(
        "a synthesis without a UUID can be cleared",
        "workers.publishing:publish_readiness",
        'expect = {_UUID: composition.current.uuid} if "uuid" in live.json["status"]["currentSynthesis"] else {}',
        "expect = {_UUID: composition.current.uuid}",
        "tests/unit/workers/test_gate.py::test_without_a_uuid_there_is_no_decision_and_no_readiness[disabled]",
    ),
    Guard(
        "a verdict is bound to the composition that was read",
        "workers.publishing:publish_readiness",
        "_patch(cluster, live, operations)",
        "_patch(cluster, live, operations[2:])",
        "first/undisturbed/",
    ),
    Guard(
        "a request for a resynthesis is bound to the composition that was read",
        "workers.publishing:request_resynthesis",
        "composition.latest_uuid)",
        "composition.latest_uuid)[2:]",
        "loaded/undisturbed/",
    ),
    Guard(
        "a request that lost a race is decided anew",
        "workers.publishing:request_resynthesis",
        "except (Conflict, Invalid, NotFound, ServerError) as error:",
        "except ZeroDivisionError as error:",
        (
            "tests/unit/workers/test_publishing.py::test_a_request_for_a_resynthesis_keeps_other_annotations"
            "_and_is_bound_to_what_was_read"
        ),
    ),
    Guard(
        "fields that the server does not know are refused, not pruned",
        "workers.publishing:_patch",
        ", strict=True",
        "",
        (
            "tests/unit/workers/test_recover.py::test_a_decision_is_published_under_tests_of_uid_version_and"
            "_current_uuid"
        ),
    ),
    Guard(
        "a server that does not know the decision says so",
        "workers.publishing:_patch",
        'if "unknown field" in error.detail:',
        "if False:",
        (
            "tests/unit/workers/test_recover.py::test_a_crd_without_the_fields_is_terminal_with_the_line_tha"
            "t_fixes_it[refuses unknown fields]"
        ),
    ),
    Guard(
        "a status that lost a race is decided anew",
        "workers.publishing:_patch",
        "Conflict, Invalid, NotFound, ServerError",
        "ZeroDivisionError",
        (
            "tests/unit/workers/test_publishing.py::test_a_failed_test_operation_is_a_lost_race_however_it_i"
            "s_answered[as by the schema]"
        ),
    ),
    Guard(
        "a status whose composition is gone is superseded",
        "workers.publishing:_patch",
        " NotFound,",
        "",
        (
            "tests/unit/workers/test_gate.py::test_a_composition_that_is_deleted_meanwhile_is_superseded[pat"
            "ch compositions/status]"
        ),
    ),
    Guard(
        "a failed test that is answered with 500 is a lost race",
        "workers.publishing:_patch",
        ", ServerError",
        "",
        (
            "tests/unit/workers/test_publishing.py::test_a_failed_test_operation_is_a_lost_race_however_it_i"
            "s_answered[as a fault, by an older server]"
        ),
    ),
    Guard(
        "a refusal that stays is no lost race",
        "workers.publishing:_rejected",
        "if now is not None and _tested(now) == _tested(live):",
        "if False:",
        "tests/unit/workers/test_gate.py::test_a_refusal_that_stays_is_permanent_and_does_not_loop",
    ),
    Guard(
        "a lost race is no refusal that stays",
        "workers.publishing:_rejected",
        " and _tested(now) == _tested(live)",
        "",
        (
            "tests/unit/workers/test_publishing.py::test_a_failed_test_operation_is_a_lost_race_however_it_i"
            "s_answered[as by the schema]"
        ),
    ),
    Guard(
        "a composition that has changed is told by its version",
        "workers.publishing:_tested",
        "return live.composition.uid, live.composition.resource_version",
        'return live.composition.uid, ""',
        (
            "tests/unit/workers/test_publishing.py::test_a_failed_test_operation_is_a_lost_race_however_it_i"
            "s_answered[as by the schema]"
        ),
    ),
    Guard(
        "what is appended is a tombstone",
        "workers.slices:append",
        '"deleted": True',
        '"deleted": False',
        "recreated/undisturbed/",
    ),
    Guard(
        "an append is bound to the slice that was read",
        "workers.slices:append",
        "target.name, operations)",
        "target.name, operations[2:])",
        "recreated/undisturbed/",
    ),
    Guard(
        "an append that lost a race is decided anew",
        "workers.slices:append",
        "except (Conflict, Invalid, ServerError) as error:",
        "except ZeroDivisionError as error:",
        "tests/unit/workers/test_recover.py::test_a_slice_that_changes_before_the_append_is_read_again",
    ),
    Guard(
        "a refusal of an append that stays is no lost race",
        "workers.slices:append",
        "if (now.uid, now.resource_version) == (target.uid, target.resource_version):",
        "if False:",
        "tests/unit/workers/test_recover.py::test_a_refusal_by_the_schema_is_permanent_and_does_not_loop",
    ),
    Guard(
        "a lost race for a slice is no refusal that stays",
        "workers.slices:append",
        "if (now.uid, now.resource_version) == (target.uid, target.resource_version):",
        "if True:",
        "tests/unit/workers/test_recover.py::test_a_slice_that_changes_before_the_append_is_read_again",
    ),
    Guard(
        "an overflow slice of an earlier attempt is taken as it is",
        "workers.slices:create_overflow",
        "except AlreadyExists as error:",
        "except ZeroDivisionError as error:",
        "overflow/crashes/c7:lost",
    ),
    Guard(
        "a slice of the same name that differs is not taken for ours",
        "workers.slices:create_overflow",
        "if difference:",
        "if False:",
        "tests/unit/workers/test_recover.py::test_an_overflow_slice_that_differs_is_never_overwritten[content]",
    ),
    Guard(
        "an append never replaces what a slice holds",
        "workers.slices:_as_read",
        '{"resources": []} if target.resources else {}',
        "{}",
        "recreated/undisturbed/",
    ),
    Guard(
        "a slice that holds nothing takes tombstones",
        "workers.slices:_as_read",
        '{"resources": []} if target.resources else {}',
        '{"resources": []}',
        "tests/unit/workers/test_recover.py::test_a_slice_without_a_list_of_resources_takes_tombstones",
    ),
)
