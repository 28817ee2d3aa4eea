"""Guards of the watcher: what it derives from what it knows, and when."""

from __future__ import annotations

from tests.simulation.mutation import Guard

_DERIVE = "tests/unit/watcher/test_derive.py"
_DERIVE_GATE = "tests/unit/watcher/test_derive_gate.py"
_INVENTORIES = "tests/unit/watcher/test_inventories.py"
_DERIVE_CLEANUP = "tests/unit/watcher/test_derive_cleanup.py"

GUARDS: tuple[Guard, ...] = (
    Guard(
        "nobody asks for a recovery outside of its scope",
        "watcher.derive:recover",
        "not composition.in_recovery_scope or ",
        "",
        f"{_DERIVE}::test_recover_is_not_due[outside the recovery namespace]",
    ),
    Guard(
        "nobody asks for a recovery that is not due",
        "watcher.derive:recover",
        " or not composition.recovery_due",
        "",
        f"{_DERIVE}::test_recover_is_not_due[not opted in]",
    ),
    Guard(
        "nobody asks for a gate outside of the watch scope",
        "watcher.derive:gate",
        "composition is None or not composition.in_watch_scope",
        "composition is None",
        f"{_DERIVE}::test_labels_decide_also_when_the_server_did_not_select",
    ),
    Guard(
        "a settled composition is not gated",
        "watcher.derive:gate",
        "if not (_is_held(composition) or _is_unsettled(subject, composition, scope)):",
        "if False:",
        f"{_DERIVE_GATE}::test_gate_is_not_due[ready and reconciled]",
    ),
    Guard(
        "a reference that leads nowhere is looked at when it begins to count",
        "watcher.derive:gate",
        "at if at is not None and now < at else None",
        "None",
        f"{_DERIVE_GATE}::test_a_missing_slice_is_looked_at_again_when_it_begins_to_count",
    ),
    Guard(
        "nobody asks for a record outside of the recovery scope",
        "watcher.derive:record",
        "not composition.in_recovery_scope or ",
        "",
        f"{_INVENTORIES}::test_record_is_not_due[outside the recovery namespace]",
    ),
    Guard(
        "nobody asks for a record of what is not ready and decided",
        "watcher.derive:record",
        " or not composition.history.to_record",
        "",
        f"{_INVENTORIES}::test_record_is_not_due[not ready]",
    ),
    Guard(
        "nothing is recorded before it is known what is recorded already",
        "watcher.derive:record",
        "if subject.inventories is None:",
        "if False:",
        f"{_INVENTORIES}::test_nothing_is_recorded_before_it_is_known_what_is_recorded_already",
    ),
    Guard(
        "what is recorded is not asked to be recorded again",
        "watcher.derive:record",
        "NOTHING if is_recorded(subject, now) else ",
        "",
        f"{_INVENTORIES}::test_record_is_not_due[it is stored]",
    ),
    Guard(
        "no slice is cleaned up outside of the watch scope",
        "watcher.derive:cleanup",
        "if composition is not None and not composition.in_watch_scope:",
        "if False:",
        f"{_DERIVE_CLEANUP}::test_cleanup_is_not_asked_about_a_slice[of a composition that is not selected]",
    ),
    Guard(
        "slices that others control are the business of those",
        "watcher.derive:cleanup",
        " if composition is None or each.owner_name == composition.key.name]",
        "]",
        f"{_DERIVE_CLEANUP}::test_slices_that_it_names_but_others_control_are_the_business_of_those",
    ),
    Guard(
        "a slice that is too young is not cleaned up yet",
        "watcher.derive:cleanup",
        "for each, at in timed if at <= now)",
        "for each, at in timed)",
        f"{_DERIVE_CLEANUP}::test_a_young_slice_is_looked_at_again_when_it_is_older_than_5_s",
    ),
    Guard(
        "a slice that is too young is looked at when it is old enough",
        "watcher.derive:cleanup",
        "[at for _, at in timed if now < at]",
        "[]",
        f"{_DERIVE_CLEANUP}::test_a_young_slice_is_looked_at_again_when_it_is_older_than_5_s",
    ),
    Guard(
        "overflow that may be about to be published is looked at again",
        "watcher.derive:cleanup",
        "instants += [now + OVERFLOW_PAUSE for each in due if each.overflow and not each.deleting]",
        "pass",
        f"{_DERIVE_CLEANUP}::test_overflow_is_asked_about_and_looked_at_again_after_5_s",
    ),
    Guard(
        "slices of two owners are two tasks",
        "watcher.derive:cleanup",
        'groupby(due, attrgetter("owner_uid"))',
        'groupby(due, lambda _: "")',
        f"{_DERIVE_CLEANUP}::test_there_is_one_task_per_owner_uid",
    ),
    Guard(
        "slices that terminate are asked about first",
        "watcher.derive:cleanup",
        "key=lambda each: (each.owner_uid, not each.deleting)",
        "key=lambda each: each.owner_uid",
        f"{_DERIVE_CLEANUP}::test_a_message_names_no_more_slices_than_a_task_can_do_and_terminating_ones_first",
    ),
    Guard(
        "a slice whose owner no message can carry keeps no other from going",
        "watcher.derive:cleanup",
        "except InvalidMessage as error:",
        "except ZeroDivisionError as error:",
        f"{_DERIVE_CLEANUP}::test_a_slice_whose_owner_no_message_can_carry_keeps_no_other_from_going",
    ),
    Guard(
        "nothing is retired where nothing is recovered",
        "watcher.derive:retire",
        " or not scope.recovers_in(namespace)",
        "",
        f"{_INVENTORIES}::test_nothing_is_retired_out_of_scope[disabled]",
    ),
    Guard(
        "nobody asks to retire what is as it should be",
        "watcher.derive:retire",
        "if not any(plan.mark or plan.unmark or plan.delete for plan in plans):",
        "if False:",
        f"{_INVENTORIES}::test_retire_is_not_due[claimed and unmarked]",
    ),
    Guard(
        "a grace that runs is looked at when it ends",
        "watcher.derive:retire",
        "return Derived(look_again=min(waits, default=None))",
        "return NOTHING",
        "unsettled/undisturbed/",
    ),
    Guard(
        "of several waits the first one counts",
        "watcher.derive:derive",
        "look_again=min(instants, default=None)",
        "look_again=max(instants, default=None)",
        f"{_DERIVE_CLEANUP}::test_of_several_waits_the_one_that_ends_first_counts",
    ),
    Guard(
        "what no message can carry keeps nothing else back",
        "watcher.derive:_answer",
        "except InvalidMessage as error:",
        "except ZeroDivisionError as error:",
        f"{_DERIVE}::test_a_uuid_that_no_message_can_carry_is_a_finding_and_not_sent",
    ),
    Guard(
        "a message names no more slices than a task can do",
        "watcher.derive:_about_slices",
        "due[:SLICES_PER_MESSAGE]",
        "due",
        f"{_DERIVE_CLEANUP}::test_a_message_names_no_more_slices_than_a_task_can_do_and_terminating_ones_first",
    ),
    Guard(
        "what is decided is not held",
        "watcher.derive:_is_held",
        "current.decided or ",
        "",
        f"{_DERIVE_GATE}::test_gate_is_not_due[ready and reconciled]",
    ),
    Guard(
        "who is not opted in is not held",
        "watcher.derive:_is_held",
        "not composition.opted_in or ",
        "",
        f"{_DERIVE_GATE}::test_gate_is_not_due[not opted in and undecided]",
    ),
    Guard(
        "who is being deleted is not held",
        "watcher.derive:_is_held",
        " or composition.deleting",
        "",
        f"{_DERIVE_GATE}::test_gate_is_not_due[deleting, where others aggregate]",
    ),
    Guard(
        "an empty synthesis that is not synthesized yet is held once it is called ready",
        "watcher.derive:_is_held",
        " or current.ready or current.reconciled",
        "",
        f"{_DERIVE_GATE}::test_gate_is_due[called ready before it was synthesized]",
    ),
    Guard(
        "a synthesis that is not there yet and called nothing is not held",
        "watcher.derive:_is_held",
        "return current.synthesized is not None or current.ready or current.reconciled",
        "return True",
        f"{_DERIVE_GATE}::test_gate_is_not_due[not synthesized]",
    ),
    Guard(
        "what is not synthesized is not aggregated",
        "watcher.derive:_is_unsettled",
        "current.synthesized is None or ",
        "",
        f"{_DERIVE_GATE}::test_gate_is_not_due[not synthesized]",
    ),
    Guard(
        "only what is to be aggregated here is",
        "watcher.derive:_is_unsettled",
        " or not scope.aggregates(opted_in=composition.opted_in)",
        "",
        f"{_DERIVE_GATE}::test_gate_is_not_due[not opted in]",
    ),
    Guard(
        "a deletion is gated until it is over",
        "watcher.derive:_is_unsettled",
        " and not composition.deleting",
        "",
        f"{_DERIVE_GATE}::test_gate_is_due[deleting]",
    ),
    Guard(
        "a settled composition is gated when a slice of it changed",
        "watcher.derive:_is_unsettled",
        " or subject.slices_changed",
        "",
        (
            f"{_DERIVE_GATE}::test_a_slice_that_changed_calls_for_a_gate_of_what_is_aggregated_here"
            "[ready and reconciled]"
        ),
    ),
    Guard(
        "a settled composition is gated when a slice of it is gone",
        "watcher.derive:_is_unsettled",
        " or hole_counts_at(subject) is not None",
        "",
        f"{_DERIVE_GATE}::test_gate_is_due[a nameless reference]",
    ),
    Guard(
        "what is not ready and reconciled is gated",
        "watcher.derive:_is_unsettled",
        "not settled or ",
        "",
        "empty/undisturbed/",
    ),
)
