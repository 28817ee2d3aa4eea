"""Guards of decisions: when one is due, when it is final, and when a resynthesis may be asked for."""

from __future__ import annotations

from tests.simulation.mutation import Guard

GUARDS: tuple[Guard, ...] = (
    Guard(
        "a retriable decision is not final",
        "eno.decision:finished",
        "decision.status and ",
        "",
        "recreated/crashes/c5:lost",
    ),
    Guard(
        "a decision that is bound to another synthesis counts as none",
        "eno.decision:finished",
        " and decision.synthesis_uuid == synthesis.uuid",
        "",
        (
            "tests/unit/eno/test_decision.py::test_a_decision_is_finished_when_terminal_and_bound_to_its_own"
            "_synthesis[bound to another synthesis]"
        ),
    ),
    Guard(
        "a decision that is bound to nothing counts as none",
        "eno.decision:finished",
        "bool(synthesis.uuid) and ",
        "",
        (
            "tests/unit/eno/test_decision.py::test_a_decision_is_finished_when_terminal_and_bound_to_its_own"
            "_synthesis[bound to nothing]"
        ),
    ),
    Guard(
        "only a recovery that has buried says whose history it adopted",
        "eno.decision:adopted_source",
        "decision.reason != Reason.FINISHED or ",
        "",
        (
            "tests/unit/eno/test_decision.py::test_a_final_decision_that_buried_says_whose_history_was_adopt"
            "ed[nothing was buried]"
        ),
    ),
    Guard(
        "a decision that is not final has adopted nothing",
        "eno.decision:adopted_source",
        " or not finished(synthesis)",
        "",
        (
            "tests/unit/eno/test_decision.py::test_a_final_decision_that_buried_says_whose_history_was_adopt"
            "ed[made for another synthesis]"
        ),
    ),
    Guard(
        "an inventory that cannot be read ends no recovery",
        "eno.decision:Reason.terminal",
        "Reason.INVENTORY_GET_ERROR, ",
        "",
        "first/errors/c1:404",
    ),
    Guard(
        "a slice that cannot be read ends no recovery",
        "eno.decision:Reason.terminal",
        "Reason.SLICE_ERROR, ",
        "",
        "recreated/errors/c2:404",
    ),
    Guard(
        "a slice that cannot be written ends no recovery",
        "eno.decision:Reason.terminal",
        ", Reason.UPDATE_ERROR",
        "",
        "recreated/crashes/c5:lost",
    ),
    Guard(
        "an absent field is inferred for a first synthesis only",
        "eno.decision:recovery_required",
        " and composition.previous is None",
        "",
        "tests/unit/workers/test_recover.py::test_absent_is_not_required_once_there_was_a_previous_synthesis",
    ),
    Guard(
        "what an older Eno leaves out is required only where the setting says so",
        "eno.decision:recovery_required",
        "return infer",
        "return True",
        "tests/unit/workers/test_recover.py::test_fields_that_eno_does_not_know_are_published_with_a_warning",
    ),
    Guard(
        "nothing is decided about a composition that is being deleted",
        "eno.decision:nothing_to_decide",
        "if composition.deleting:",
        "if False:",
        "first/eno/b1:act=deleted",
    ),
    Guard(
        "nothing is decided before a synthesis is complete",
        "eno.decision:nothing_to_decide",
        " or composition.current.synthesized is None",
        "",
        (
            "tests/unit/eno/test_decision.py::test_a_decision_is_due_for_a_synthesized_opted_in_undecided_co"
            "mposition[not synthesized yet]"
        ),
    ),
    Guard(
        "nothing is decided without an opt-in",
        "eno.decision:nothing_to_decide",
        "if not composition.opted_in:",
        "if False:",
        "opt-out/undisturbed/",
    ),
    Guard(
        "a final decision is never made anew",
        "eno.decision:nothing_to_decide",
        "if finished(composition.current):",
        "if False:",
        "tests/unit/workers/test_recover.py::test_a_second_round_makes_no_write",
    ),
    Guard(
        "nothing is recorded before the decision",
        "eno.decision:nothing_to_record",
        'if why != "decided":',
        'if why not in ("decided", None):',
        "tests/unit/workers/test_record.py::test_nothing_is_recorded_where_it_is_not_called_for[undecided]",
    ),
    Guard(
        "nothing is recorded before the synthesis is ready",
        "eno.decision:nothing_to_record",
        "if composition.current is None or composition.current.ready is None:",
        "if False:",
        "tests/unit/workers/test_record.py::test_nothing_is_recorded_where_it_is_not_called_for[not ready]",
    ),
    Guard(
        "a recovery is skipped only where a decision is due",
        "eno.decision:skipped_decision",
        "if nothing_to_decide(composition) is not None:",
        "if False:",
        "tests/unit/workers/test_gate.py::test_no_decision_is_skipped_for_what_has_none_to_make[finished-disabled]",
    ),
    Guard(
        "a recovery is skipped where recovery is switched off",
        "eno.decision:skipped_decision",
        "if not enabled:",
        "if False:",
        (
            "tests/unit/workers/test_gate.py::test_where_nobody_recovers_the_decision_says_so_and_releases_t"
            "he_gate[disabled]"
        ),
    ),
    Guard(
        "a recovery is skipped outside of the recovery namespace",
        "eno.decision:skipped_decision",
        "return Reason.OUTSIDE_NAMESPACE if composition.namespace != recovery_namespace else None",
        "return None",
        (
            "tests/unit/workers/test_gate.py::test_where_nobody_recovers_the_decision_says_so_and_releases_t"
            "he_gate[outside]"
        ),
    ),
    Guard(
        "no debt is left where no history was lacking",
        "eno.decision:recovery_skipped",
        "\n        and current.recovery_required is True",
        "",
        (
            "tests/unit/eno/test_decision.py::test_a_skipped_recovery_leaves_its_debt_to_the_successor[no "
            "history was lacking]"
        ),
    ),
    Guard(
        "a skipped recovery of another synthesis leaves no debt",
        "eno.decision:recovery_skipped",
        "\n        and finished(current)",
        "",
        (
            "tests/unit/eno/test_decision.py::test_a_skipped_recovery_leaves_its_debt_to_the_successor[anoth"
            "er synthesis was]"
        ),
    ),
    Guard(
        "only a skipped recovery leaves its debt to the successor",
        "eno.decision:recovery_skipped",
        "\n        and current.recovery.reason in (Reason.OPERATOR_NOT_ENABLED, Reason.OUTSIDE_NAMESPACE)",
        "",
        "tests/unit/eno/test_decision.py::test_a_skipped_recovery_leaves_its_debt_to_the_successor[recovered]",
    ),
    Guard(
        "a message about an earlier composition of the same name changes nothing",
        "eno.decision:superseded",
        "if composition.uid != uid:",
        "if False:",
        "tests/unit/eno/test_decision.py::test_a_task_is_superseded_when_uid_or_uuid_have_changed[recreated]",
    ),
    Guard(
        "a message about an earlier synthesis changes nothing",
        "eno.decision:superseded",
        "if current is not None and current.uuid != synthesis_uuid:",
        "if False:",
        "deleted/undisturbed/",
    ),
    Guard(
        "only a final decision announces a resynthesis",
        "eno.decision:resynthesis_owed",
        "\n        and finished(current)",
        "",
        "tests/unit/eno/test_decision.py::test_a_resynthesis_that_was_announced_for_another_synthesis_is_not_owed",
    ),
    Guard(
        "a resynthesis is owed only when it was announced",
        "eno.decision:resynthesis_owed",
        "\n        and current.recovery.message.endswith(RESYNTHESIS_OWED)",
        "",
        "first/undisturbed/",
    ),
    Guard(
        "nothing is owed to a composition that has opted out",
        "eno.decision:resynthesis_owed",
        "\n        and composition.opted_in",
        "",
        "loaded/eno/x7:opted-out",
    ),
    Guard(
        "no resynthesis is owed that may not be requested",
        "eno.decision:resynthesis_owed",
        "\n        and resynthesis_refused(composition) is None",
        "",
        "tests/unit/eno/test_decision.py::test_a_resynthesis_is_owed_until_it_was_requested[in flight]",
    ),
    Guard(
        "no resynthesis is requested of what is being deleted",
        "eno.decision:resynthesis_refused",
        "if composition.deleting:",
        "if False:",
        "loaded/eno/x7:deleted",
    ),
    Guard(
        "no resynthesis is requested where side effects are ignored",
        "eno.decision:resynthesis_refused",
        'if composition.annotations.get(IGNORE_SIDE_EFFECTS_ANNOTATION) == "true":',
        "if False:",
        (
            "tests/unit/eno/test_decision.py::test_a_resynthesis_is_owed_until_it_was_requested[side "
            "effects are ignored]"
        ),
    ),
    Guard(
        "no resynthesis is requested while one is in flight",
        "eno.decision:resynthesis_refused",
        "if composition.in_flight is not None:",
        "if False:",
        "loaded/eno/b0:act=started",
    ),
    Guard(
        "no resynthesis is requested twice",
        "eno.decision:resynthesis_refused",
        "if composition.annotations.get(FORCE_RESYNTHESIS_ANNOTATION) == composition.latest_uuid:",
        "if False:",
        "tests/unit/eno/test_decision.py::test_a_resynthesis_is_owed_until_it_was_requested[already requested]",
    ),
    Guard(
        "what is undecided is due",
        "eno.decision:recovery_due",
        "nothing_to_decide(composition) is None or ",
        "",
        "first/crashes/c1:lost",
    ),
    Guard(
        "a resynthesis that is still owed is due",
        "eno.decision:recovery_due",
        " or resynthesis_owed(composition)",
        "",
        "loaded/crashes/c6:lost",
    ),
)
