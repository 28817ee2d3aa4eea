"""Guards of recover: what it reads first, what stops it, and what becomes of a failure."""

from __future__ import annotations

from tests.simulation.mutation import Guard

GUARDS: tuple[Guard, ...] = (
    Guard(
        "recovery is for those who lack history",
        "workers.recovery:prepare",
        "if not recovery_required(composition, infer=context.settings.infer_required):",
        "if False:",
        "first/undisturbed/",
    ),
    Guard(
        "a young composition waits before it adopts",
        "workers.recovery:prepare",
        'return Outcome(Kind.WAITING, "younger than what may adopt another name\'s history", until)',
        "return Prepared(live, Decision(Reason.INVENTORY_NOT_FOUND))",
        "adoption/undisturbed/",
    ),
    Guard(
        "an inventory that cannot be trusted is no missing one",
        "workers.recovery:prepare",
        "Decision(Reason.INVENTORY_INVALID, error.summary)",
        "Decision(Reason.INVENTORY_NOT_FOUND)",
        "tests/unit/workers/test_recover.py::test_an_invalid_inventory_is_terminal_and_touches_no_slice",
    ),
    Guard(
        "an inventory that cannot be read is no missing inventory",
        "workers.recovery:prepare",
        "Decision(Reason.INVENTORY_GET_ERROR, error.summary), cause=error",
        "Decision(Reason.INVENTORY_NOT_FOUND)",
        "recreated/errors/c1:404",
    ),
    Guard(
        "the message of a failed read is the same at every attempt",
        "workers.recovery:prepare",
        "Decision(Reason.INVENTORY_GET_ERROR, error.summary)",
        "Decision(Reason.INVENTORY_GET_ERROR, str(error))",
        (
            "tests/unit/workers/test_recover.py::test_a_failure_is_published_once_as_retriable_and_then_reco"
            "vered_from[inventory unreadable]"
        ),
    ),
    Guard(
        "siblings are asked only when something is missing",
        "workers.recovery:_bury",
        "if absent:",
        "if True:",
        "tests/unit/workers/test_recover.py::test_nothing_missing_costs_no_list_of_siblings_and_no_slice_write",
    ),
    Guard(
        "what siblings want is asked before anything is buried",
        "workers.recovery:_bury",
        "wanted = neighbours.current_manifests()",
        "wanted = []",
        "siblings/undisturbed/",
    ),
    Guard(
        "what siblings are remembered to own is asked before anything is buried",
        "workers.recovery:_bury",
        "remembered = list(neighbours.remembered(history.lineage, context.clock()))",
        "remembered = []",
        (
            "tests/unit/workers/test_recover.py::test_what_an_unsynthesized_sibling_is_remembered_to_own_is_"
            "never_in_the_plan[no synthesis]"
        ),
    ),
    Guard(
        "an inventory of a sibling that cannot be trusted buries nothing",
        "workers.recovery:_bury",
        (
            "except InvalidInventory as error:\n        return Prepared(live, "
            "Decision(Reason.INVENTORY_INVALID, error.summary), warning=str(error))"
        ),
        "except InvalidInventory:\n        debt = Debt(tuple(absent))",
        "tests/unit/workers/test_recover.py::test_an_inventory_of_a_sibling_that_cannot_be_trusted_buries_nothing",
    ),
    Guard(
        "a slice that cannot be read is no missing slice",
        "workers.recovery:_bury",
        "Decision(Reason.SLICE_ERROR, error.summary), cause=error",
        "Decision(Reason.FINISHED)",
        "recreated/errors/c2:404",
    ),
    Guard(
        "tombstones that cannot be packed are no end",
        "workers.recovery:_bury",
        "Decision(Reason.UPDATE_ERROR, error.summary), cause=error",
        "Decision(Reason.FINISHED)",
        "tests/unit/workers/test_recover.py::test_a_tombstone_that_fits_no_slice_is_reported_and_ends_nothing",
    ),
    Guard(
        "people are warned of what is held",
        "workers.recovery:_bury",
        "warning=held",
        'warning=""',
        "tests/unit/workers/test_recover.py::test_what_something_wanted_lives_in_is_held_and_named",
    ),
    Guard(
        "history of another name is adopted only when nothing stands against it",
        "workers.recovery:_history",
        "adopted = adopt(found, composition, neighbours.all, neighbours.earliest(now))",
        "adopted = found.snapshot",
        "siblings/undisturbed/",
    ),
    Guard(
        "the age of a composition is told by the slower of two clocks",
        "workers.recovery:_history",
        "neighbours.earliest(now)",
        "now",
        "tests/unit/workers/test_recover.py::test_a_clock_that_is_ahead_makes_no_composition_older",
    ),
    Guard(
        "a decision says whose history was adopted",
        "workers.recovery:_message",
        'adoption_note(source) if source != composition.name else ""',
        '""',
        "adoption/undisturbed/",
    ),
    Guard(
        "a decision does not call its own history adopted",
        "workers.recovery:_message",
        ' if source != composition.name else ""',
        "",
        "recreated/undisturbed/",
    ),
    Guard(
        "a decision names what is held",
        "workers.recovery:_message",
        'f"Held, because something wanted lives in it: {_listed(debt)}." if debt.held else ""',
        '""',
        "siblings/undisturbed/",
    ),
    Guard(
        "a decision announces the resynthesis that it needs",
        "workers.recovery:_message",
        'RESYNTHESIS_OWED if owed else ""',
        '""',
        "loaded/undisturbed/",
    ),
    Guard(
        "people are warned of an Eno that does not say what a synthesis lacks",
        "workers.recovery:_missing_fields",
        "if current.recovery_required is not None or composition.previous is not None:",
        "if True:",
        "tests/unit/workers/test_recover.py::test_fields_that_eno_does_not_know_are_published_with_a_warning",
    ),
    Guard(
        "only a 404 means that a composition is gone",
        "workers.freshness:read",
        "except NotFound:",
        "except Exception:",
        "tests/unit/workers/test_recover.py::test_a_composition_that_cannot_be_read_is_not_taken_for_gone",
    ),
    Guard(
        "a task acts only on what its message names",
        "workers.freshness:read_named",
        "why = superseded(live.composition, message.uid, message.synthesis_uuid)",
        "why = None",
        "deleted/undisturbed/",
    ),
    Guard(
        "nothing is recovered out of scope",
        "workers.freshness:recovery_stop",
        "outside = scope.outside_recovery(live.composition)",
        "outside = None",
        "tests/unit/workers/test_recover.py::test_a_message_about_something_out_of_scope_changes_nothing[labels]",
    ),
    Guard(
        "nothing is recovered where no decision is due",
        "workers.freshness:recovery_stop",
        "why = nothing_to_decide(live.composition)",
        "why = None",
        "recreated/undisturbed/",
    ),
    Guard(
        "no decision is made that cannot be bound to a synthesis",
        "workers.freshness:recovery_stop",
        "if live.composition.current is None or not live.composition.current.uuid:",
        "if False:",
        "tests/unit/workers/test_recover.py::test_an_empty_uuid_is_an_error_and_no_decision",
    ),
    Guard(
        "nothing is recorded out of scope",
        "workers.freshness:record_stop",
        "outside = scope.outside_recovery(live.composition)",
        "outside = None",
        "tests/unit/workers/test_record.py::test_a_message_about_something_out_of_scope_changes_nothing[labels]",
    ),
    Guard(
        "nothing is recorded that is not ready and decided",
        "workers.freshness:record_stop",
        "why = nothing_to_record(live.composition)",
        "why = None",
        "tests/unit/workers/test_record.py::test_nothing_is_recorded_where_it_is_not_called_for[not ready]",
    ),
    Guard(
        "a resynthesis is requested in scope only",
        "workers.handlers.recover:_attempt",
        "outside is None and ",
        "",
        "tests/unit/workers/test_recover.py::test_a_resynthesis_is_only_requested_in_scope[out of scope]",
    ),
    Guard(
        "a resynthesis that a crash prevented is requested by the next task",
        "workers.handlers.recover:_attempt",
        "resynthesis_owed(live.composition)",
        "False",
        "loaded/crashes/c6:lost",
    ),
    Guard(
        "a recovery begins only where a decision is due",
        "workers.handlers.recover:_attempt",
        "stop = recovery_stop(live, context.settings.scope)",
        "stop = None",
        "first/eno/b1:act=opted-out",
    ),
    Guard(
        "a retriable decision is followed by a retry",
        "workers.handlers.recover:_attempt",
        "if prepared.cause is not None:",
        "if False:",
        (
            "tests/unit/workers/test_recover.py::test_a_failure_is_published_once_as_retriable_and_then_reco"
            "vered_from[inventory unreadable]"
        ),
    ),
    Guard(
        "a mass burial is announced before it begins",
        "workers.handlers.recover:_attempt",
        "_hold_mass_burial(prepared, context) or ",
        "",
        "tests/unit/workers/test_recover.py::test_a_mass_burial_is_announced_first",
    ),
    Guard(
        "the composition is read again before each write to a slice",
        "workers.handlers.recover:_carry_out",
        "fresh = _fresh(message, context)",
        "fresh = live",
        "recreated/eno/x1:opted-out",
    ),
    Guard(
        "tombstones are written before the decision is published",
        "workers.handlers.recover:_carry_out",
        "for step in prepared.plan.steps:",
        "live = publish(context.upstream, live, prepared.decision)\n        for step in prepared.plan.steps:",
        "recreated/undisturbed/",
    ),
    Guard(
        "new slices are published with the decision",
        "workers.handlers.recover:_carry_out",
        ", prepared.decision, overflow)",
        ", prepared.decision)",
        "overflow/undisturbed/",
    ),
    Guard(
        "a lost race is reported to nobody",
        "workers.handlers.recover:_carry_out",
        "except (StartOver, MissingCapability):",
        "except MissingCapability:",
        "tests/unit/workers/test_recover.py::test_a_lost_race_is_reported_to_nobody",
    ),
    Guard(
        "a decision that the server cannot hold is not published another time",
        "workers.handlers.recover:_carry_out",
        "except (StartOver, MissingCapability):",
        "except StartOver:",
        (
            "tests/unit/workers/test_recover.py::test_a_crd_without_the_fields_is_terminal_with_the_line_tha"
            "t_fixes_it[refuses unknown fields]"
        ),
    ),
    Guard(
        "a failed write is reported on the composition",
        "workers.handlers.recover:_carry_out",
        "_report(live, Decision(Reason.UPDATE_ERROR, error.summary), context)",
        "pass",
        (
            "tests/unit/workers/test_recover.py::test_a_failure_is_published_once_as_retriable_and_then_reco"
            "vered_from[slice not writable]"
        ),
    ),
    Guard(
        "a failed write comes back",
        "workers.handlers.recover:_carry_out",
        "error.summary), context)\n        raise",
        "error.summary), context)\n        return Outcome(Kind.DONE, error.summary)",
        (
            "tests/unit/workers/test_recover.py::test_a_failure_is_published_once_as_retriable_and_then_reco"
            "vered_from[slice not writable]"
        ),
    ),
    Guard(
        "a resynthesis that was announced is requested at once",
        "workers.handlers.recover:_carry_out",
        "if prepared.decision.message.endswith(RESYNTHESIS_OWED):",
        "if False:",
        "tests/unit/workers/test_recover.py::test_a_loaded_slice_takes_no_append_and_a_resynthesis_is_requested_once",
    ),
    Guard(
        "a recovery that is overtaken writes nothing more",
        "workers.handlers.recover:_fresh",
        "return Outcome(Kind.SUPERSEDED, stop.reason) if stop else live",
        "return live",
        "overflow/eno/x1:deleted",
    ),
    Guard(
        "a failing report never hides its cause",
        "workers.handlers.recover:_report",
        "except SextonError as error:",
        "except ZeroDivisionError as error:",
        "tests/unit/workers/test_recover.py::test_a_failing_report_never_hides_the_cause",
    ),
    Guard(
        "a repeated error is announced once",
        "workers.handlers.recover:_report",
        "if published is not live:",
        "if True:",
        (
            "tests/unit/workers/test_recover.py::test_a_failure_is_published_once_as_retriable_and_then_reco"
            "vered_from[inventory unreadable]"
        ),
    ),
    Guard(
        "an ordinary burial waits for nobody",
        "workers.handlers.recover:_hold_mass_burial",
        "if not prepared.mass_burial:",
        "if False:",
        "tests/unit/workers/test_recover.py::test_absent_is_not_required_once_there_was_a_previous_synthesis",
    ),
    Guard(
        "a mass burial waits only where the settings ask for it",
        "workers.handlers.recover:_hold_mass_burial",
        "context.settings.acknowledge_mass_burial and ",
        "",
        "tests/unit/workers/test_recover.py::test_a_mass_burial_is_announced_first",
    ),
    Guard(
        "a mass burial waits for its acknowledgement",
        "workers.handlers.recover:_hold_mass_burial",
        "if not waits:",
        "if True:",
        (
            "tests/unit/workers/test_recover.py::test_a_mass_burial_waits_for_its_acknowledgement_where_the_"
            "setting_asks_for_it"
        ),
    ),
    Guard(
        "an acknowledgement is for one synthesis",
        "workers.handlers.recover:_hold_mass_burial",
        "composition.annotations.get(ACKNOWLEDGE_ANNOTATION) != uuid",
        "ACKNOWLEDGE_ANNOTATION not in composition.annotations",
        (
            "tests/unit/workers/test_recover.py::test_a_mass_burial_waits_for_its_acknowledgement_where_the_"
            "setting_asks_for_it"
        ),
    ),
    Guard(
        "a resynthesis is requested only while it is owed",
        "workers.handlers.recover:_resynthesize",
        "isinstance(live, Outcome) or not resynthesis_owed(live.composition)",
        "isinstance(live, Outcome)",
        "loaded/eno/b0:act=started",
    ),
)
