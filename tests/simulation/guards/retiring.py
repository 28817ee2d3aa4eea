"""Guards of the writes of retire, and of every delete of a Secret: what is read before them, what they are bound to."""

from __future__ import annotations

from tests.simulation.mutation import Guard

GUARDS: tuple[Guard, ...] = (
    Guard(
        "retire acts only in the recovery scope",
        "workers.handlers.retire:_attempt",
        "if not context.settings.scope.recovers_in(message.namespace):",
        "if False:",
        "tests/unit/workers/test_retire.py::test_a_message_about_something_out_of_scope_changes_nothing[disabled]",
    ),
    Guard(
        "retire takes back every mark of what is claimed",
        "workers.handlers.retire:_attempt",
        (
            "    every(partial(_unmark, objects[each.stored.name], context) for _, plan in planned "
            "for each in plan.unmark)\n"
        ),
        "",
        "unsettled/eno/x22:recreated",
    ),
    Guard(
        "who claims an inventory is found by one complete list",
        "workers.handlers.retire:_look",
        "compositions = [Composition.from_json(item) for item in listing.items]",
        "compositions = [Composition.from_json(item) for item in listing.items[:1]]",
        "siblings/undisturbed/",
    ),
    Guard(
        "a grace is over when the earlier clock says so",
        "workers.handlers.retire:_look",
        "_Look(claims, min(clocks), max(clocks))",
        "_Look(claims, max(clocks), max(clocks))",
        "tests/unit/workers/test_retire.py::test_a_clock_that_is_8_days_ahead_deletes_nothing_early[ours]",
    ),
    Guard(
        "a mark carries the later clock",
        "workers.handlers.retire:_look",
        "_Look(claims, min(clocks), max(clocks))",
        "_Look(claims, min(clocks), min(clocks))",
        "tests/unit/workers/test_retire.py::test_a_wrong_clock_while_it_is_marked_deletes_nothing_early[set back]",
    ),
    Guard(
        "the server's clock counts when a grace is judged",
        "workers.handlers.retire:_look",
        "[listing.date] if listing.date else []",
        "[]",
        "tests/unit/workers/test_retire.py::test_a_clock_that_is_8_days_ahead_deletes_nothing_early[ours]",
    ),
    Guard(
        "whoever claims a lineage is looked for without a selector",
        "workers.handlers.retire:_look",
        "Query(COMPOSITIONS, message.namespace)",
        "Query(COMPOSITIONS, message.namespace, label_selector=context.settings.scope.label_selector)",
        "tests/unit/workers/test_retire.py::test_a_label_selector_does_not_hide_who_claims",
    ),
    Guard(
        "a mark is bound to the Secret as it was listed",
        "workers.handlers.retire:_mark",
        "guards.set_annotation(secret, UNCLAIMED_SINCE_ANNOTATION, format_time(now))",
        "guards.set_annotation(secret, UNCLAIMED_SINCE_ANNOTATION, format_time(now))[2:]",
        "retired/undisturbed/",
    ),
    Guard(
        "the removal of a mark is bound to the Secret as it was listed",
        "workers.handlers.retire:_unmark",
        "guards.guarded(secret, [guards.remove(path)])",
        "[guards.remove(path)]",
        "retired/undisturbed/",
    ),
    Guard(
        "a Secret that is gone needs no mark",
        "workers.handlers.retire:_patch",
        ("except NotFound:\n        return"),
        ("except NotFound:\n        raise"),
        "tests/unit/workers/test_retire.py::test_a_secret_that_is_gone_meanwhile_is_no_error[to be marked]",
    ),
    Guard(
        "a refused mark of an unchanged Secret is no lost race",
        "workers.handlers.retire:_patch",
        "if _unchanged(secret, context):",
        "if False:",
        "tests/unit/workers/test_retire.py::test_a_patch_that_is_refused_for_good_is_an_error_and_does_not_loop",
    ),
    Guard(
        "a Secret that changes before it is marked is judged anew",
        "workers.handlers.retire:_patch",
        "if _unchanged(secret, context):",
        "if True:",
        "tests/unit/workers/test_retire.py::test_a_secret_that_is_edited_meanwhile_is_judged_anew[before the mark]",
    ),
    Guard(
        "a Secret that was recreated is another one",
        "workers.handlers.retire:_unchanged",
        "(now.uid, now.resource_version) == (then.uid, then.resource_version)",
        "now.name == then.name",
        "tests/unit/workers/test_retire.py::test_a_secret_that_is_edited_meanwhile_is_judged_anew[before the mark]",
    ),
    Guard(
        "retire asks once more before every delete",
        "workers.handlers.retire:_delete",
        "if not again.delete:",
        "if False:",
        "tests/unit/workers/test_retire.py::test_a_claim_that_comes_while_it_is_deleted_keeps_the_rest[0]",
    ),
    Guard(
        "retire goes no further than the first Secret that stays",
        "workers.handlers.retire:_delete_all",
        ("    for holding in plan.delete:\n        _delete(holding, group, message, context)"),
        "    every(partial(_delete, holding, group, message, context) for holding in plan.delete)",
        "tests/unit/workers/test_retire.py::test_what_is_newer_stays_when_what_is_older_cannot_be_deleted",
    ),
    Guard(
        "the earliest end of a grace counts",
        "workers.handlers.retire:_summary",
        "min(waits)",
        "max(waits)",
        "tests/unit/workers/test_retire.py::test_the_grace_that_ends_first_is_waited_for",
    ),
    Guard(
        "a grace is a wait of the task",
        "workers.handlers.retire:_summary",
        "if waits:",
        "if False:",
        "tests/unit/workers/test_retire.py::test_an_unclaimed_inventory_is_marked_with_now",
    ),
    Guard(
        "retire and record list one lineage",
        "workers.inventories:list_metadata",
        'label_selector=f"{LINEAGE_KEY}={lineage_id}"',
        "label_selector=LINEAGE_KEY",
        "tests/unit/workers/test_retire.py::test_inventories_of_other_lineages_are_not_looked_at",
    ),
    Guard(
        "only Opaque Secrets are listed",
        "workers.inventories:list_metadata",
        '        field_selector=f"type={_TYPE}",\n',
        "",
        "tests/unit/workers/test_retire.py::test_what_merely_carries_the_label_is_never_touched",
    ),
    Guard(
        "what an inventory lists is not read where it does not matter",
        "workers.inventories:list_metadata",
        "metadata_only=True",
        "metadata_only=False",
        "tests/unit/workers/test_retire.py::test_retirement_never_reads_what_an_inventory_lists",
    ),
    Guard(
        "a delete of a Secret carries its UID",
        "workers.inventories:delete_secret",
        "uid=each.uid",
        "uid=None",
        "retired/undisturbed/",
    ),
    Guard(
        "a delete of a Secret carries its version",
        "workers.inventories:delete_secret",
        "resource_version=each.resource_version",
        "resource_version=None",
        "retired/undisturbed/",
    ),
    Guard(
        "a Secret that is gone counts as deleted",
        "workers.inventories:delete_secret",
        ("except NotFound:\n        return"),
        ("except NotFound:\n        raise"),
        "tests/unit/workers/test_retire.py::test_a_secret_that_is_gone_meanwhile_is_no_error[to be deleted]",
    ),
    Guard(
        "a Secret that changes before its delete is judged anew",
        "workers.inventories:delete_secret",
        'raise StartOver("it has changed since it was listed", where=f"Secret {each.name}") from error',
        "return",
        "tests/unit/workers/test_retire.py::test_a_secret_that_is_edited_meanwhile_is_judged_anew[before the delete]",
    ),
)
