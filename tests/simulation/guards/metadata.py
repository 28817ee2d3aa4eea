"""Guards of what the watcher reads out of metadata: about slices, and about inventories."""

from __future__ import annotations

from tests.simulation.mutation import Guard

_INVENTORIES = "tests/unit/watcher/test_inventories.py"
_DERIVE_GATE = "tests/unit/watcher/test_derive_gate.py"
_DERIVE_CLEANUP = "tests/unit/watcher/test_derive_cleanup.py"

GUARDS: tuple[Guard, ...] = (
    Guard(
        "what a skipped recovery left is not buried under a newer snapshot",
        "watcher.inventories:is_recorded",
        "return history.skipped and any(each.source.composition == source.composition for each in inventory.sound)",
        "return False",
        (
            f"{_INVENTORIES}::test_after_a_skipped_recovery_only_a_name_without_history_is_recorded"
            "[TombstoneRecoveryOperatorNotEnabled]"
        ),
    ),
    Guard(
        "only a skipped recovery keeps a snapshot from being taken",
        "watcher.inventories:is_recorded",
        "return history.skipped and any(",
        "return any(",
        "first/undisturbed/",
    ),
    Guard(
        "after a skipped recovery a name without history is recorded",
        "watcher.inventories:is_recorded",
        "history.skipped and any(each.source.composition == source.composition for each in inventory.sound)",
        "history.skipped",
        (
            f"{_INVENTORIES}::test_after_a_skipped_recovery_only_a_name_without_history_is_recorded"
            "[TombstoneRecoveryOperatorNotEnabled]"
        ),
    ),
    Guard(
        "the history of a name in use again is not replaced",
        "watcher.inventories:is_recorded",
        '"" if subject.adopted_in_use else history.adopted',
        "history.adopted",
        f"{_INVENTORIES}::test_the_history_of_a_name_that_is_in_use_again_is_nothing_to_replace",
    ),
    Guard(
        "evidence that is kept is not replaced",
        "watcher.inventories:is_recorded",
        "history.keeps_evidence or ",
        "",
        f"{_INVENTORIES}::test_record_is_not_due[an older one is kept as evidence]",
    ),
    Guard(
        "what a snapshot replaces calls for a record",
        "watcher.inventories:is_recorded",
        "not inventory.replaced(source, names, adopted, now)",
        "True",
        f"{_INVENTORIES}::test_record_is_due[an older one is left]",
    ),
    Guard(
        "an undecided recovery claims its whole lineage",
        "watcher.inventories:retirement",
        'next((each.key.name for each in claimants if each.history.unrecovered), "")',
        '""',
        f"{_INVENTORIES}::test_retire_is_due[claimed by one that is still to be recovered]",
    ),
    Guard(
        "a composition claims its own snapshots",
        "watcher.inventories:retirement",
        " if each.history.claims)",
        " if False)",
        f"{_INVENTORIES}::test_retire_is_due[claimed and marked]",
    ),
    Guard(
        "who may not be resynthesized is not asked to for a hole",
        "watcher.slices:hole_counts_at",
        " or not composition.may_resynthesize",
        "",
        f"{_DERIVE_GATE}::test_gate_is_not_due[a slice that is not known, and a resynthesis in flight]",
    ),
    Guard(
        "a synthesis that is whole has no hole",
        "watcher.slices:hole_counts_at",
        "None if whole else ",
        "",
        f"{_DERIVE_GATE}::test_gate_is_not_due[ready and reconciled]",
    ),
    Guard(
        "a slice that is missing is given time to appear",
        "watcher.slices:hole_counts_at",
        " + MISSING_SLICE_PATIENCE",
        "",
        f"{_DERIVE_GATE}::test_a_missing_slice_is_looked_at_again_when_it_begins_to_count",
    ),
    Guard(
        "a slice that terminates and is not ours to hold is left to others",
        "watcher.slices:let_go_at",
        "each.held and ",
        "",
        f"{_DERIVE_CLEANUP}::test_cleanup_is_not_asked_about_a_slice[terminating, held by others alone]",
    ),
    Guard(
        "a slice that terminates is kept while it is needed",
        "watcher.slices:let_go_at",
        " and not _still_needed(each, composition)",
        "",
        f"{_DERIVE_CLEANUP}::test_cleanup_is_not_asked_about_a_slice[terminating, current is not reconciled]",
    ),
    Guard(
        "a composition of the same name and another UID is no owner",
        "watcher.slices:let_go_at",
        " and composition.uid == each.owner_uid",
        "",
        f"{_DERIVE_CLEANUP}::test_cleanup_is_not_asked_about_a_slice[only a namesake is alive, a selector]",
    ),
    Guard(
        "with a selector a slice is let go only when its owner is in scope",
        "watcher.slices:let_go_at",
        "bool(scope.label_selector) and owner is None",
        "False",
        f"{_DERIVE_CLEANUP}::test_cleanup_is_not_asked_about_a_slice[its composition is gone, a selector]",
    ),
    Guard(
        "a slice that nobody controls is left alone",
        "watcher.slices:let_go_at",
        "not each.owner_uid or ",
        "",
        f"{_DERIVE_CLEANUP}::test_a_slice_that_nobody_controls_is_left_alone_and_reported",
    ),
    Guard(
        "a slice that current or previous refer to is left alone",
        "watcher.slices:let_go_at",
        " or _referenced(each, composition)",
        "",
        f"{_DERIVE_CLEANUP}::test_cleanup_is_not_asked_about_a_slice[referenced by current]",
    ),
    Guard(
        "a slice that may have been made for the synthesis in flight is left alone",
        "watcher.slices:let_go_at",
        "if running is not None and not running.canceled and not made_before(each.created, running.initialized):",
        "if False:",
        f"{_DERIVE_CLEANUP}::test_cleanup_is_not_asked_about_a_slice[a synthesis is in flight]",
    ),
    Guard(
        "a canceled synthesis protects no slice",
        "watcher.slices:let_go_at",
        " and not running.canceled",
        "",
        f"{_DERIVE_CLEANUP}::test_cleanup_is_asked_about_a_slice[the synthesis in flight was canceled]",
    ),
    Guard(
        "a synthesis in flight protects no slice that is older than itself",
        "watcher.slices:let_go_at",
        " and not made_before(each.created, running.initialized)",
        "",
        f"{_DERIVE_CLEANUP}::test_cleanup_is_asked_about_a_slice[far older than the synthesis in flight]",
    ),
    Guard(
        "a slice is old enough before it is let go",
        "watcher.slices:let_go_at",
        "old_enough_at(each.created)",
        "LONG_AGO",
        f"{_DERIVE_CLEANUP}::test_a_young_slice_is_looked_at_again_when_it_is_older_than_5_s",
    ),
    Guard(
        "what is reconciled needs no slice that terminates",
        "watcher.slices:_still_needed",
        " and not current.reconciled",
        "",
        f"{_DERIVE_CLEANUP}::test_cleanup_is_asked_about_a_slice[terminating, current is reconciled]",
    ),
    Guard(
        "only what current refers to is still needed",
        "watcher.slices:_still_needed",
        " and each.key.name in current.slice_names",
        "",
        f"{_DERIVE_CLEANUP}::test_cleanup_is_asked_about_a_slice[terminating, not referenced]",
    ),
    Guard(
        "what previous refers to is left alone",
        "watcher.slices:_referenced",
        " or each.key.name in composition.previous_slice_names",
        "",
        f"{_DERIVE_CLEANUP}::test_cleanup_is_not_asked_about_a_slice[referenced by previous]",
    ),
    Guard(
        "what current refers to is left alone",
        "watcher.slices:_referenced",
        "each.key.name in current or ",
        "",
        f"{_DERIVE_CLEANUP}::test_cleanup_is_not_asked_about_a_slice[referenced by current]",
    ),
)
