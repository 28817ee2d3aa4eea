"""Guards of inventories: what is remembered, and which stored snapshot may be trusted."""

from __future__ import annotations

from tests.simulation.mutation import Guard

GUARDS: tuple[Guard, ...] = (
    Guard(
        "a tombstone carries no readiness expression",
        "eno.inventory.entries:Entry.of",
        "for key in KEPT_ANNOTATIONS if key in head.annotations",
        "for key in head.annotations",
        "tests/unit/eno/test_inventory.py::test_only_the_two_ordering_annotations_are_kept",
    ),
    Guard(
        "a tombstone owns nothing",
        "eno.inventory.entries:build",
        "not deleted and ",
        "",
        "tests/unit/eno/test_inventory.py::test_what_the_synthesis_does_not_own_is_not_remembered[a tombstone]",
    ),
    Guard(
        "a Patch owns nothing",
        "eno.inventory.entries:build",
        "not head.is_patch and ",
        "",
        "tests/unit/eno/test_inventory.py::test_what_the_synthesis_does_not_own_is_not_remembered[a Patch]",
    ),
    Guard(
        "what Eno does not manage is not inventoried, so never buried",
        "eno.inventory.entries:build",
        " and head.managed",
        "",
        "tests/unit/eno/test_inventory.py::test_what_the_synthesis_does_not_own_is_not_remembered[unmanaged]",
    ),
    Guard(
        "the first manifest of an identity is the one that is remembered",
        "eno.inventory.entries:build",
        "entries.setdefault(head.id, Entry.of(head))",
        "entries[head.id] = Entry.of(head)",
        "tests/unit/eno/test_inventory.py::test_the_first_occurrence_of_an_identity_wins",
    ),
    Guard(
        "equal inventories are equal bytes",
        "eno.inventory.entries:build",
        "sorted(entries.values(), key=_order)",
        "list(entries.values())",
        "tests/unit/eno/test_inventory.py::test_entries_are_sorted_by_bytes",
    ),
    Guard(
        "entries are sorted by bytes",
        "eno.inventory.entries:_order",
        "part.encode()",
        "part.lower()",
        "tests/unit/eno/test_inventory.py::test_entries_are_sorted_by_bytes",
    ),
    Guard(
        "an entry that fits no Secret is refused before any write",
        "eno.inventory.entries:chunk",
        "if len(encoded) + 2 > limit:",
        "if False:",
        "tests/unit/eno/test_inventory.py::test_one_entry_that_cannot_fit_is_an_error_before_any_write",
    ),
    Guard(
        "a chunk is never over the limit of a Secret",
        "eno.inventory.entries:chunk",
        "if size + len(encoded) + 1 > limit:",
        "if False:",
        "tests/unit/eno/test_inventory.py::test_exactly_the_limit_fits[two one byte over]",
    ),
    Guard(
        "an empty inventory is remembered as such",
        "eno.inventory.entries:chunk",
        "    payloads.append(_array(pending))\n    return payloads",
        "    payloads += [_array(pending)] if pending else []\n    return payloads",
        "empty/undisturbed/",
    ),
    Guard(
        "an identity that is listed twice makes an inventory invalid",
        "eno.inventory.selection:Snapshot.entries",
        "if entry.id in seen:",
        "if False:",
        "tests/unit/eno/test_selection.py::test_an_identity_in_two_chunks_is_a_duplicate",
    ),
    Guard(
        "one Secret with unusable metadata makes a lineage invalid",
        "eno.inventory.selection:Lineage.read",
        "raise stored.error()",
        "continue",
        "tests/unit/eno/test_selection.py::test_one_secret_with_unusable_metadata_makes_everything_invalid",
    ),
    Guard(
        "an incomplete snapshot is no missing history",
        "eno.inventory.selection:Lineage.newest",
        'raise InvalidInventory(f"no complete snapshot: {_listed(self._of(name))}", where=f"inventory of {name}")',
        "return None",
        "tests/unit/eno/test_selection.py::test_secrets_without_any_complete_snapshot_are_invalid",
    ),
    Guard(
        "two snapshots that are tied for newest are not chosen from",
        "eno.inventory.selection:Lineage.newest",
        "if len(ranked) > 1 and _rank(ranked[0], now) == _rank(ranked[1], now):",
        "if False:",
        "tests/unit/eno/test_selection.py::test_two_syntheses_tied_for_newest_are_invalid",
    ),
    Guard(
        "the newest snapshot is chosen",
        "eno.inventory.selection:Lineage.newest",
        "reverse=True",
        "reverse=False",
        "first/eno/x29:recreated",
    ),
    Guard(
        "chunks of two syntheses make no snapshot",
        "eno.inventory.selection:Lineage.snapshots",
        "groups.setdefault(stored.source.synthesis_uuid, [])",
        'groups.setdefault("", [])',
        "rotation/undisturbed/",
    ),
    Guard(
        "chunks of another name are not of this one",
        "eno.inventory.selection:Lineage._of",
        " if stored.source.composition == name",
        "",
        "tests/unit/eno/test_selection.py::test_an_own_name_comes_before_a_newer_one_of_another",
    ),
    Guard(
        "an own snapshot needs no adoption",
        "eno.inventory.selection:select",
        "if own is not None:",
        "if False:",
        "recreated/undisturbed/",
    ),
    Guard(
        "several other names are no history to choose from",
        "eno.inventory.selection:select",
        "case (other,):",
        "case (other, *_):",
        "tests/unit/eno/test_selection.py::test_several_other_names_are_ambiguous",
    ),
    Guard(
        "compositions whose synthesizer has no name adopt nothing from each other",
        "eno.inventory.selection:adopt",
        "if not composition.synthesizer:",
        "if False:",
        "tests/unit/workers/test_recover.py::test_synthesizers_without_a_name_adopt_nothing_from_each_other",
    ),
    Guard(
        "history of a composition that exists is not adopted",
        "eno.inventory.selection:adopt",
        "if any(each.name == source for each in namespace):",
        "if False:",
        "tests/unit/workers/test_recover.py::test_history_of_a_living_composition_is_not_adopted",
    ),
    Guard(
        "history that a sibling could claim is not adopted",
        "eno.inventory.selection:adopt",
        "if rivals:",
        "if False:",
        (
            "tests/unit/eno/test_selection.py::test_history_of_another_name_is_adopted_only_when_nobody_else"
            "_can_claim_it[a sibling exists]"
        ),
    ),
    Guard(
        "history is adopted after a minute only, since siblings may still come",
        "eno.inventory.selection:adopt",
        "if composition.created is None or now < composition.created + ADOPTION_AGE:",
        "if False:",
        (
            "tests/unit/eno/test_selection.py::test_history_of_another_name_is_adopted_only_when_nobody_else"
            "_can_claim_it[too young: siblings may still come]"
        ),
    ),
    Guard(
        "a composition is no sibling of its own",
        "eno.inventory.selection:siblings",
        "each.name != composition.name and ",
        "",
        "adoption/undisturbed/",
    ),
    Guard(
        "a composition of another synthesizer is no sibling",
        "eno.inventory.selection:siblings",
        " and each.synthesizer == composition.synthesizer",
        "",
        (
            "tests/unit/eno/test_selection.py::test_history_of_another_name_is_adopted_only_when_nobody_else"
            "_can_claim_it[a stranger exists]"
        ),
    ),
    Guard(
        "a snapshot has one chunk per index",
        "eno.inventory.selection:_complete",
        "if [stored.index for stored in ordered] != list(range(first.count)):",
        "if False:",
        "rotation/crashes/c55:lost",
    ),
    Guard(
        "a snapshot with a terminating chunk is incomplete",
        "eno.inventory.selection:_complete",
        "each.terminating or ",
        "",
        "tests/unit/eno/test_selection.py::test_a_terminating_chunk_makes_a_snapshot_incomplete",
    ),
    Guard(
        "chunks of different sources make no snapshot",
        "eno.inventory.selection:_complete",
        "each.source != first.source or ",
        "",
        "tests/unit/eno/test_selection.py::test_chunks_that_disagree_make_a_snapshot_incomplete[timestamp]",
    ),
    Guard(
        "chunks that disagree on their count make no snapshot",
        "eno.inventory.selection:_complete",
        " or each.count != first.count",
        "",
        "tests/unit/eno/test_selection.py::test_chunks_that_disagree_make_a_snapshot_incomplete[count]",
    ),
    Guard(
        "a snapshot from the future ranks below every other",
        "eno.inventory.selection:_rank",
        "return synthesized <= now + FUTURE_TOLERANCE, synthesized",
        "return True, synthesized",
        "tests/unit/eno/test_selection.py::test_a_stamp_more_than_five_minutes_ahead_ranks_below_every_other[6-past]",
    ),
    Guard(
        "a clock that is a little ahead makes no future",
        "eno.inventory.selection:_rank",
        " + FUTURE_TOLERANCE",
        "",
        (
            "tests/unit/eno/test_selection.py::test_a_stamp_more_than_five_minutes_ahead_ranks_below_every_o"
            "ther[5-future]"
        ),
    ),
    Guard(
        "a payload over the limit is no inventory",
        "eno.inventory.selection:decode",
        "if len(payload) > CHUNK_LIMIT:",
        "if False:",
        "tests/unit/eno/test_selection.py::test_an_unusable_payload_names_the_secret_and_the_defect[over the limit]",
    ),
    Guard(
        "a payload that is no inventory is named, and no traceback",
        "eno.inventory.selection:decode",
        "msgspec.DecodeError, UnicodeError,",
        "UnicodeError,",
        "tests/unit/eno/test_selection.py::test_an_unusable_payload_names_the_secret_and_the_defect[not JSON]",
    ),
    Guard(
        "a payload that is nested too deeply is named, and no traceback",
        "eno.inventory.selection:decode",
        ", RecursionError",
        "",
        (
            "tests/unit/eno/test_selection.py::test_an_unusable_payload_names_the_secret_and_the_defect[nest"
            "ed too deeply]"
        ),
    ),
    Guard(
        "an inventory entry without a version is invalid",
        "eno.inventory.selection:_checked",
        "each.version and ",
        "",
        "tests/unit/eno/test_selection.py::test_an_unusable_payload_names_the_secret_and_the_defect[empty version]",
    ),
    Guard(
        "an inventory entry without a kind is invalid",
        "eno.inventory.selection:_checked",
        "each.kind and ",
        "",
        "tests/unit/eno/test_selection.py::test_an_unusable_payload_names_the_secret_and_the_defect[empty kind]",
    ),
    Guard(
        "an inventory entry without a name is invalid",
        "eno.inventory.selection:_checked",
        " and each.name)",
        ")",
        "tests/unit/eno/test_selection.py::test_an_unusable_payload_names_the_secret_and_the_defect[empty name]",
    ),
    Guard(
        "an inventory that lists a Patch is invalid",
        "eno.inventory.selection:_checked",
        'if (each.group, each.kind) == (GROUP, "Patch"):',
        "if False:",
        "tests/unit/eno/test_selection.py::test_an_unusable_payload_names_the_secret_and_the_defect[Patch]",
    ),
)
