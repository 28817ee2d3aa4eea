"""Guards of settlement: which inventory goes with a composition that is deleted cleanly."""

from __future__ import annotations

from tests.simulation.mutation import Guard

GUARDS: tuple[Guard, ...] = (
    Guard(
        "an inventory is settled only in the recovery scope",
        "workers.settlement:settle",
        "context.settings.scope.outside_recovery(composition) is not None or ",
        "",
        "tests/unit/workers/test_settlement.py::test_outside_the_recovery_scope_no_inventory_is_touched[disabled]",
    ),
    Guard(
        "a symphony that is being deleted settles no inventory",
        "workers.settlement:settle",
        " or skips_slices(composition)",
        "",
        "tests/unit/workers/test_settlement.py::test_orphan_does_not_make_up_for_what_was_skipped[symphony]",
    ),
    Guard(
        "nothing is settled while a slice is missing",
        "workers.settlement:settle",
        "if len(whole) < len(slices):",
        "if False:",
        (
            "tests/unit/workers/test_settlement.py::test_what_is_not_known_to_be_gone_stays_recorded_"
            "and_never_blocks_the_deletion[a reference without a name was skipped]"
        ),
    ),
    Guard(
        "what is not known to be deleted is not settled",
        "workers.settlement:settle",
        "orphans(composition) or _recorded(stored) <= deleted_identities(whole)",
        "True",
        "deleted/undisturbed/",
    ),
    Guard(
        "what was let go on purpose is settled although it is there",
        "workers.settlement:settle",
        "orphans(composition) or ",
        "",
        (
            "tests/unit/workers/test_settlement.py::test_under_orphan_everything_was_let_go_on_purpos"
            "e[nothing was deleted]"
        ),
    ),
    Guard(
        "adopted history that was not replaced yet is settled as well",
        "workers.settlement:settle",
        "(_adopted(inventory, composition, context), _own(inventory, composition))",
        "(_own(inventory, composition),)",
        "tests/unit/workers/test_settlement.py::test_history_that_was_adopted_and_not_replaced_yet_is_let_go_as_well",
    ),
    Guard(
        "a settlement looks again before every delete",
        "workers.settlement:_let_go",
        "if fresh is None or _state(fresh) != _state(live):",
        "if False:",
        "tests/unit/workers/test_settlement.py::test_a_settlement_that_is_overtaken_deletes_nothing[let go]",
    ),
    Guard(
        "a settlement ends when its composition is gone",
        "workers.settlement:_let_go",
        "if fresh is None or _state",
        "if fresh is not None and _state",
        "tests/unit/workers/test_settlement.py::test_a_settlement_that_is_overtaken_deletes_nothing[let go]",
    ),
    Guard(
        "only what is deleted downstream is settled",
        "workers.settlement:deleted_identities",
        "        if state.deleted\n",
        "",
        "tests/unit/workers/test_settlement.py::test_only_a_state_that_says_deleted_tells_that_a_resource_is_gone",
    ),
    Guard(
        "an undone Patch does not settle its target",
        "workers.settlement:deleted_identities",
        " if not head.is_patch",
        "",
        (
            "tests/unit/workers/test_settlement.py::test_what_is_not_known_to_be_gone_stays_recorded_"
            "and_never_blocks_the_deletion[an identity only as a Patch target]"
        ),
    ),
    Guard(
        "a settlement takes an unusable Secret of its name along",
        "workers.settlement:_own",
        "[*unusable, *sorted",
        "[*sorted",
        "tests/unit/workers/test_settlement.py::test_an_inventory_that_cannot_be_read_is_kept_and_told_of",
    ),
    Guard(
        "a settlement takes no unusable Secret of another name along",
        "workers.settlement:_own",
        " and each.may_belong_to(composition.name)",
        "",
        "tests/unit/workers/test_settlement.py::test_under_orphan_what_is_unusable_of_another_name_stays",
    ),
    Guard(
        "a settlement takes no history of another name along",
        "workers.settlement:_own",
        "each for each in inventory.sound if each.source.composition == composition.name",
        "each for each in inventory.sound",
        "tests/unit/workers/test_settlement.py::test_only_the_snapshots_of_its_own_name_go",
    ),
    Guard(
        "a settlement deletes the newest snapshot of its name last",
        "workers.settlement:_own",
        "sorted(sound, key=lambda each: each.source.synthesized)",
        "sorted(sound, key=lambda each: each.source.synthesized, reverse=True)",
        "tests/unit/workers/test_settlement.py::test_the_newest_snapshot_goes_last",
    ),
    Guard(
        "adopted history whose name is in use again is not settled",
        "workers.settlement:_adopted",
        "not found or read(context.upstream, composition.namespace, name) is not None",
        "not found",
        "tests/unit/workers/test_settlement.py::test_adopted_history_stays_where_somebody_has_that_name_again",
    ),
    Guard(
        "a settlement takes only the adopted name along",
        "workers.settlement:_adopted",
        "if each.source.composition == name",
        "if each.source.composition != composition.name",
        "tests/unit/workers/test_settlement.py::test_only_the_snapshots_of_its_own_name_go",
    ),
    Guard(
        "a settlement deletes the newest adopted snapshot last",
        "workers.settlement:_adopted",
        "key=lambda each: each.source.synthesized",
        "key=lambda each: each.source.synthesized, reverse=True",
        "tests/unit/workers/test_settlement.py::test_the_newest_of_adopted_history_goes_last",
    ),
    Guard(
        "a Secret that cannot be read is not settled",
        "workers.settlement:_recorded",
        "raise each.error()",
        "continue",
        "tests/unit/workers/test_settlement.py::test_an_inventory_that_cannot_be_read_is_kept_and_told_of",
    ),
    Guard(
        "a settlement is bound to the composition's version",
        "workers.settlement:_state",
        "live.composition.uid, live.composition.resource_version",
        'live.composition.uid, ""',
        "tests/unit/workers/test_settlement.py::test_a_settlement_that_is_overtaken_deletes_nothing[supersede]",
    ),
)
