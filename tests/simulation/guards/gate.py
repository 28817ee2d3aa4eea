"""Guards of the gate's pass: what it holds, publishes, asks for, and does not fight over."""

from __future__ import annotations

from tests.simulation.mutation import Guard

GUARDS: tuple[Guard, ...] = (
    Guard(
        "gate acts on the synthesis that its message names",
        "workers.handlers.gate:_attempt",
        ("live = read_named(context.upstream, message)\n    if isinstance(live, Outcome):\n        return live"),
        (
            "from workers.freshness import read\n"
            "    live = read(context.upstream, message.namespace, message.name)\n"
            "    if live is None:\n"
            "        return Outcome(Kind.SUPERSEDED, 'gone')"
        ),
        "deleted/undisturbed/",
    ),
    Guard(
        "gate leaves alone what is out of scope",
        "workers.handlers.gate:_attempt",
        "if outside:",
        "if False:",
        "tests/unit/workers/test_gate.py::test_a_composition_out_of_scope_is_left_alone[namespace]",
    ),
    Guard(
        "a recovery that nobody makes does not hold readiness",
        "workers.handlers.gate:_attempt",
        "if skipped is not None:",
        "if False:",
        (
            "tests/unit/workers/test_gate.py::test_where_nobody_recovers_the_decision_says_so_and_rel"
            "eases_the_gate[disabled]"
        ),
    ),
    Guard(
        "a foreign readiness is cleared before any slice is read",
        "workers.handlers.gate:_attempt",
        "if held(composition) and composition.current is not None:",
        "if False:",
        "tests/unit/workers/test_gate.py::test_where_somebody_else_aggregates_the_gate_holds_all_the_same",
    ),
    Guard(
        "gate does not fight over readiness",
        "workers.handlers.gate:_attempt",
        "if _took_back(composition, published.composition):",
        "if False:",
        (
            "tests/unit/workers/test_gate.py::test_what_somebody_else_sets_before_the_decision_is_cle"
            "ared[no decision-both]"
        ),
    ),
    Guard(
        "a pass that skips a recovery ends there",
        "workers.handlers.gate:_attempt",
        "return _skip(live, skipped, context)",
        "_skip(live, skipped, context)",
        (
            "tests/unit/workers/test_gate.py::test_where_nobody_recovers_the_decision_says_so_and_rel"
            "eases_the_gate[outside]"
        ),
    ),
    Guard(
        "nothing is aggregated before it is synthesized",
        "workers.handlers.gate:_aggregate",
        "composition.current is None or composition.current.synthesized is None",
        "composition.current is None",
        "tests/unit/workers/test_gate.py::test_what_is_not_synthesized_has_nothing_to_aggregate",
    ),
    Guard(
        "what somebody else aggregates is left alone",
        "workers.handlers.gate:_aggregate",
        "if not aggregates and not held(composition):",
        "if False:",
        "tests/unit/workers/test_gate.py::test_the_setting_says_whose_readiness_is_aggregated[opted-in-False-False]",
    ),
    Guard(
        "gate holds where somebody else aggregates",
        "workers.handlers.gate:_aggregate",
        " and not held(composition)",
        "",
        "tests/unit/workers/test_gate.py::test_where_somebody_else_aggregates_the_gate_holds_all_the_same",
    ),
    Guard(
        "readiness is published only where it is aggregated",
        "workers.handlers.gate:_aggregate",
        "_publish(live, slices, context) if aggregates else live",
        "_publish(live, slices, context)",
        "tests/unit/workers/test_gate.py::test_where_somebody_else_aggregates_the_gate_holds_all_the_same",
    ),
    Guard(
        "gate asks for the resynthesis that is due",
        "workers.handlers.gate:_aggregate",
        "if wanted is not None:",
        "if False:",
        "tests/unit/workers/test_gate.py::test_where_somebody_else_aggregates_the_gate_holds_all_the_same",
    ),
    Guard(
        "gate waits for a slice that may still come",
        "workers.handlers.gate:_aggregate",
        "if wanted is not None and wanted.at is not None:",
        "if False:",
        "tests/unit/workers/test_gate.py::test_a_slice_that_went_missing_just_now_is_waited_for",
    ),
    Guard(
        "only what was cleared counts as a fight",
        "workers.handlers.gate:_took_back",
        "was is not None and now is None for",
        "was is not None for",
        "tests/unit/workers/test_gate.py::test_it_writes_only_on_change",
    ),
    Guard(
        "a fight over reconciled counts as one",
        "workers.handlers.gate:_took_back",
        "(before.current.reconciled, after.current.reconciled),",
        "",
        (
            "tests/unit/workers/test_gate.py::test_what_somebody_else_sets_before_the_decision_is_cle"
            "ared[no decision-reconciled]"
        ),
    ),
    Guard(
        "a fight over ready counts as one",
        "workers.handlers.gate:_took_back",
        "(before.current.ready, after.current.ready),",
        "",
        (
            "tests/unit/workers/test_gate.py::test_what_somebody_else_sets_before_the_decision_is_cle"
            "ared[no decision-ready]"
        ),
    ),
    Guard(
        "a contest holds its key back",
        "workers.handlers.gate:_contest",
        "if pause is None:",
        "if True:",
        (
            "tests/unit/workers/test_gate.py::test_an_empty_synthesis_with_history_is_held_while_the_"
            "inventory_cannot_be_read"
        ),
    ),
    Guard(
        "a missing verdict changes nothing",
        "workers.handlers.gate:_publish",
        ("if found is None:\n        return live"),
        ("if found is None:\n        found = Verdict(None, None)"),
        "tests/unit/workers/test_gate.py::test_a_missing_slice_leaves_readiness_as_it_is",
    ),
    Guard(
        "an inventory is settled before its deletion is let on",
        "workers.handlers.gate:_publish",
        ("        _settle(live, slices, context)\n    return publish_readiness(context.upstream, live, found)"),
        (
            "        published = publish_readiness(context.upstream, live, found)\n"
            "        _settle(published, slices, context)\n"
            "        return published\n"
            "    return publish_readiness(context.upstream, live, found)"
        ),
        "tests/unit/workers/test_settlement.py::test_the_inventory_goes_before_reconciled_is_written",
    ),
    Guard(
        "a clean deletion settles its inventory",
        "workers.handlers.gate:_publish",
        "        _settle(live, slices, context)",
        "        pass",
        "tests/unit/workers/test_settlement.py::test_a_cleanly_deleted_composition_leaves_no_inventory",
    ),
    Guard(
        "an inventory is settled only when everything is reconciled",
        "workers.handlers.gate:_publish",
        "if found.reconciled is not None and current",
        "if current",
        "tests/unit/workers/test_settlement.py::test_nothing_is_settled_before_the_deletion_is_reconciled[left]",
    ),
    Guard(
        "an inventory is settled once",
        "workers.handlers.gate:_publish",
        " and current.reconciled is None:",
        ":",
        "tests/unit/workers/test_settlement.py::test_what_is_settled_once_is_not_looked_at_again",
    ),
    Guard(
        "only a deletion settles an inventory",
        "workers.handlers.gate:_settle",
        "if not live.composition.deleting:",
        "if False:",
        "empty/undisturbed/",
    ),
    Guard(
        "a settlement that fails does not block the deletion",
        "workers.handlers.gate:_settle",
        "if orphans(live.composition):",
        "if True:",
        "tests/unit/workers/test_settlement.py::test_an_inventory_that_cannot_be_read_is_kept_and_told_of",
    ),
    Guard(
        "what was let go on purpose is settled before the deletion goes on",
        "workers.handlers.gate:_settle",
        "if orphans(live.composition):",
        "if False:",
        (
            "tests/unit/workers/test_settlement.py::test_under_orphan_a_failing_downstream_is_retried"
            "_before_reconciled_is_written[list secrets]"
        ),
    ),
)
