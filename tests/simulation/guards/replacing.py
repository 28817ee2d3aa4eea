"""Guards of replacement: what a complete snapshot makes superfluous, and what it leaves alone."""

from __future__ import annotations

from tests.simulation.mutation import Guard

GUARDS: tuple[Guard, ...] = (
    Guard(
        "a snapshot is complete only for its very source",
        "eno.inventory.replacement:Inventory.complete",
        "each.source == source",
        "each.source.composition == source.composition",
        "first/undisturbed/",
    ),
    Guard(
        "a later snapshot makes ours stale",
        "eno.inventory.replacement:Inventory.later",
        "return each",
        "continue",
        (
            "tests/unit/eno/test_replacement.py::test_only_a_complete_later_snapshot_of_the_same_name"
            "_makes_ours_stale[later]"
        ),
    ),
    Guard(
        "an earlier snapshot does not make ours stale",
        "eno.inventory.replacement:Inventory.later",
        "source.synthesized < each.source.synthesized <=",
        "each.source.synthesized <=",
        "first/undisturbed/",
    ),
    Guard(
        "a snapshot from the future does not make ours stale",
        "eno.inventory.replacement:Inventory.later",
        " <= now + FUTURE_TOLERANCE",
        "",
        (
            "tests/unit/eno/test_replacement.py::test_only_a_complete_later_snapshot_of_the_same_name"
            "_makes_ours_stale[from the future]"
        ),
    ),
    Guard(
        "a chunk of ours is no rival of it",
        "eno.inventory.replacement:Inventory.rivals",
        ("if each.name not in names\n            and "),
        "if ",
        (
            "tests/unit/workers/test_record.py::test_a_chunk_that_is_lost_before_the_verification_kee"
            "ps_the_older_ones[1]"
        ),
    ),
    Guard(
        "a Secret of another composition is no rival",
        "eno.inventory.replacement:Inventory.rivals",
        "and each.source.composition == source.composition\n",
        "\n",
        (
            "tests/unit/eno/test_replacement.py::test_a_rival_claims_the_same_synthesis_under_another"
            "_name[another composition]"
        ),
    ),
    Guard(
        "a Secret of another synthesis is no rival",
        "eno.inventory.replacement:Inventory.rivals",
        "            and each.source.synthesis_uuid == source.synthesis_uuid\n",
        "",
        (
            "tests/unit/eno/test_replacement.py::test_a_rival_claims_the_same_synthesis_under_another"
            "_name[another synthesis]"
        ),
    ),
    Guard(
        "a snapshot does not replace itself",
        "eno.inventory.replacement:Inventory.replaced",
        ("if each.name not in names\n            and "),
        "if ",
        "first/undisturbed/",
    ),
    Guard(
        "what is terminating is not replaced again",
        "eno.inventory.replacement:Inventory.replaced",
        "and not each.terminating\n",
        "\n",
        "tests/unit/eno/test_replacement.py::test_what_a_snapshot_replaces[a broken one that goes by itself]",
    ),
    Guard(
        "what a snapshot makes superfluous goes",
        "eno.inventory.replacement:Inventory.replaced",
        "_superfluous(each, source, now) or ",
        "",
        "first/undisturbed/",
    ),
    Guard(
        "adopted history goes when it is recorded anew",
        "eno.inventory.replacement:Inventory.replaced",
        " or _adopted(each, source, adopted)",
        "",
        (
            "tests/unit/eno/test_replacement.py::test_what_is_replaced_of_the_name_whose_history_was_"
            "adopted[what was adopted]"
        ),
    ),
    Guard(
        "the evidence of an invalid inventory is kept for one synthesis",
        "eno.inventory.replacement:keeps_evidence",
        "return invalid or ",
        "return ",
        "tests/unit/eno/test_replacement.py::test_only_after_inventory_invalid_is_the_evidence_kept[invalid]",
    ),
    Guard(
        "a skipped recovery leaves its history to its successor",
        "eno.inventory.replacement:keeps_evidence",
        " or recovery_skipped(composition)",
        "",
        (
            "tests/unit/workers/test_record.py::test_a_skipped_recovery_leaves_even_what_is_unusable_"
            "to_its_successor[TombstoneRecoveryOperatorNotEnabled]"
        ),
    ),
    Guard(
        "an unusable Secret of another name is not replaced",
        "eno.inventory.replacement:_superfluous",
        "return each.may_belong_to(source.composition)",
        "return True",
        (
            "tests/unit/eno/test_replacement.py::test_what_a_snapshot_replaces[one that names "
            "another source than its name]"
        ),
    ),
    Guard(
        "an unusable Secret of the name is replaced",
        "eno.inventory.replacement:_superfluous",
        "return each.may_belong_to(source.composition)",
        "return False",
        "tests/unit/eno/test_replacement.py::test_what_a_snapshot_replaces[one without a time]",
    ),
    Guard(
        "a snapshot of another name is not replaced",
        "eno.inventory.replacement:_superfluous",
        "if each.source.composition != source.composition:",
        "if False:",
        "siblings/undisturbed/",
    ),
    Guard(
        "a later snapshot is not replaced",
        "eno.inventory.replacement:_superfluous",
        "return stamp <= source.synthesized or stamp > now + FUTURE_TOLERANCE",
        "return True",
        "tests/unit/eno/test_replacement.py::test_what_a_snapshot_replaces[a later one]",
    ),
    Guard(
        "a snapshot from the future is replaced",
        "eno.inventory.replacement:_superfluous",
        " or stamp > now + FUTURE_TOLERANCE",
        "",
        "tests/unit/eno/test_replacement.py::test_what_a_snapshot_replaces[one from the future]",
    ),
    Guard(
        "a tie is replaced",
        "eno.inventory.replacement:_superfluous",
        "stamp <= source.synthesized",
        "stamp < source.synthesized",
        "tests/unit/eno/test_replacement.py::test_what_a_snapshot_replaces[a draft of the same synthesis]",
    ),
    Guard(
        "what has used an adopted name since is not replaced",
        "eno.inventory.replacement:_adopted",
        "        and each.source.synthesized <= source.synthesized\n",
        "",
        (
            "tests/unit/eno/test_replacement.py::test_what_is_replaced_of_the_name_whose_history_was_"
            "adopted[what was made after it was adopted]"
        ),
    ),
    Guard(
        "only the adopted name is replaced with ours",
        "eno.inventory.replacement:_adopted",
        "and each.source.composition == adopted",
        "and each.source.composition != source.composition",
        (
            "tests/unit/eno/test_replacement.py::test_what_is_replaced_of_the_name_whose_history_was_"
            "adopted[another name's]"
        ),
    ),
    Guard(
        "without an adoption no other name is replaced",
        "eno.inventory.replacement:_adopted",
        ("and bool(adopted)\n        and each.source.composition == adopted\n"),
        "and (not adopted or each.source.composition == adopted)\n",
        "siblings/undisturbed/",
    ),
)
