"""Guards of record: what is written down, when, and what it replaces."""

from __future__ import annotations

from tests.simulation.mutation import Guard

GUARDS: tuple[Guard, ...] = (
    Guard(
        "record acts on the synthesis that its message names",
        "workers.handlers.record:_fresh",
        ("live = read_named(context.upstream, message)\n    if isinstance(live, Outcome):\n        return live"),
        (
            "live = read(context.upstream, message.namespace, message.name)\n"
            "    if live is None:\n"
            "        return Outcome(Kind.SUPERSEDED, 'gone')"
        ),
        "tests/unit/workers/test_record.py::test_nothing_is_recorded_where_it_is_not_called_for[superseded]",
    ),
    Guard(
        "only a ready and decided synthesis in scope is recorded",
        "workers.handlers.record:_fresh",
        "return record_stop(live, context.settings.scope) or live",
        "return live",
        "tests/unit/workers/test_record.py::test_nothing_is_recorded_where_it_is_not_called_for[no synthesis]",
    ),
    Guard(
        "what is recorded is not recorded again",
        "workers.handlers.record:_Recording.carry_out",
        "if stored is not None and not self._replaced(listed, _names(stored)):",
        "if False:",
        "tests/unit/workers/test_record.py::test_recording_twice_costs_one_list_and_no_write",
    ),
    Guard(
        "what is recorded still replaces what is older",
        "workers.handlers.record:_Recording.carry_out",
        "if stored is not None and not self._replaced(listed, _names(stored)):",
        "if stored is not None:",
        "tests/unit/workers/test_record.py::test_a_complete_draft_is_taken_as_it_is",
    ),
    Guard(
        "a skipped recovery's history is not displaced by a new baseline",
        "workers.handlers.record:_Recording.carry_out",
        "if stored is None and recovery_skipped(self.composition) and self._history_for_the_successor(listed):",
        "if False:",
        (
            "tests/unit/workers/test_record.py::test_a_skipped_recovery_leaves_its_history_to_the_syn"
            "thesis_that_inherits_the_debt[TombstoneRecoveryOperatorNotEnabled]"
        ),
    ),
    Guard(
        "a synthesis that is older than what is stored is not recorded",
        "workers.handlers.record:_Recording.carry_out",
        "        self._refuse_stale(listed)\n",
        "",
        "tests/unit/workers/test_record.py::test_a_later_snapshot_of_the_same_name_is_refused",
    ),
    Guard(
        "the slices are read before a Secret is touched",
        "workers.handlers.record:_Recording.carry_out",
        (
            "        self._refuse_stale(listed)\n"
            "        entries = self._entries()\n"
            '        intended = {secret["metadata"]["name"]: secret for secret in '
            "snapshot(self.source, entries)}\n"
        ),
        (
            "        self._refuse_stale(listed)\n"
            "        self._delete(self._replaced(listed, ()))\n"
            "        entries = self._entries()\n"
            '        intended = {secret["metadata"]["name"]: secret for secret in '
            "snapshot(self.source, entries)}\n"
        ),
        "first/undisturbed/",
    ),
    Guard(
        "only a complete snapshot replaces what is older",
        "workers.handlers.record:_Recording.carry_out",
        (
            "        if stored is None:\n"
            "            self._make_room(inventory, intended)\n"
            '            raise StartOver("the snapshot is not complete", where=f"record '
            '{self.composition.title}")\n'
            "        self._verify(stored, listing, entries, intended)\n"
            "        self._delete(self._replaced(inventory, _names(stored)))"
        ),
        (
            "        self._delete(self._replaced(inventory, list(intended)))\n"
            "        if stored is None:\n"
            '            raise StartOver("the snapshot is not complete", where=f"record '
            '{self.composition.title}")'
        ),
        "tests/unit/workers/test_record.py::test_a_snapshot_that_is_never_complete_replaces_nothing",
    ),
    Guard(
        "nothing older goes before the new snapshot is created",
        "workers.handlers.record:_Recording.carry_out",
        ("        if stored is None:\n            self._create(intended)\n"),
        (
            "        self._delete(self._replaced(listed, list(intended)))\n"
            "        if stored is None:\n"
            "            self._create(intended)\n"
        ),
        "rotation/undisturbed/",
    ),
    Guard(
        "what is stored is listed again after it was created",
        "workers.handlers.record:_Recording.carry_out",
        (
            "        inventory = Inventory.of(listing)\n"
            "        stored = inventory.complete(self.source)\n"
            "        if stored is None:\n"
        ),
        (
            "        from eno.inventory.selection import Lineage\n"
            "\n"
            "        inventory = Inventory.of(listing)\n"
            "        stored = Lineage(Inventory.of([{**each, 'metadata': {**each['metadata'], 'uid': "
            "'', 'resourceVersion': ''}} for each in "
            "intended.values()]).sound).snapshots(self.source.composition)[0]\n"
            "        if stored is None:\n"
        ),
        (
            "tests/unit/workers/test_record.py::test_a_chunk_that_is_lost_before_the_verification_kee"
            "ps_the_older_ones[1]"
        ),
    ),
    Guard(
        "what is stored is compared before anything older goes",
        "workers.handlers.record:_Recording.carry_out",
        "        self._verify(stored, listing, entries, intended)\n",
        "",
        "tests/unit/workers/test_record.py::test_a_complete_snapshot_that_lists_something_else_replaces_nothing",
    ),
    Guard(
        "what keeps a snapshot from being complete makes room",
        "workers.handlers.record:_Recording.carry_out",
        "            self._make_room(inventory, intended)\n",
        "",
        "tests/unit/workers/test_record.py::test_an_incomplete_draft_makes_room_before_anything_older_goes",
    ),
    Guard(
        "only history of an older synthesis counts for the successor",
        "workers.handlers.record:_Recording._history_for_the_successor",
        ("            if (each.source.composition, each.source.synthesis_uuid) != (own, self.source.synthesis_uuid)\n"),
        "",
        (
            "tests/unit/workers/test_record.py::test_half_of_its_own_snapshot_is_no_history_that_a_sk"
            "ipped_recovery_would_leave"
        ),
    ),
    Guard(
        "history of a name in use is none for the successor",
        "workers.handlers.record:_Recording._history_for_the_successor",
        "name == own or not self._in_use(name)",
        "True",
        (
            "tests/unit/workers/test_record.py::test_a_skipped_recovery_without_history_is_recorded[T"
            "ombstoneRecoveryOperatorNotEnabled]"
        ),
    ),
    Guard(
        "a later inventory is not displaced",
        "workers.handlers.record:_Recording._refuse_stale",
        "if later is not None:",
        "if False:",
        "tests/unit/workers/test_record.py::test_a_later_snapshot_of_the_same_name_is_refused",
    ),
    Guard(
        "record looks again before every chunk",
        "workers.handlers.record:_Recording._create",
        "            self._look_again()\n",
        "",
        "rotation/undisturbed/",
    ),
    Guard(
        "a chunk that is there already is compared",
        "workers.handlers.record:_Recording._create",
        "                self._compare(existing, secret)\n",
        "                pass\n",
        (
            "tests/unit/workers/test_record.py::test_something_else_that_has_the_name_is_neither_over"
            "written_nor_deleted[type]"
        ),
    ),
    Guard(
        "a chunk that is terminating is waited for",
        "workers.handlers.record:_Recording._compare",
        'if existing["metadata"].get("deletionTimestamp"):',
        "if False:",
        "tests/unit/workers/test_record.py::test_a_chunk_that_is_terminating_is_waited_for",
    ),
    Guard(
        "what has a chunk's name and is another one is refused",
        "workers.handlers.record:_Recording._compare",
        "if different is not None:",
        "if False:",
        (
            "tests/unit/workers/test_record.py::test_something_else_that_has_the_name_is_neither_over"
            "written_nor_deleted[payload]"
        ),
    ),
    Guard(
        "each listed chunk of ours is compared",
        "workers.handlers.record:_Recording._verify",
        "if isinstance(name, str) and name in intended:",
        "if False:",
        (
            "tests/unit/workers/test_record.py::test_something_else_that_has_the_name_is_neither_over"
            "written_nor_deleted[payload]"
        ),
    ),
    Guard(
        "a stored snapshot must list what the synthesis owns",
        "workers.handlers.record:_Recording._verify",
        "if not same:",
        "if False:",
        "tests/unit/workers/test_record.py::test_a_complete_draft_that_lists_something_else_replaces_nothing",
    ),
    Guard(
        "a rival that must stay is refused",
        "workers.handlers.record:_Recording._make_room",
        "if staying:",
        "if False:",
        "tests/unit/workers/test_record.py::test_a_rival_that_the_rules_do_not_let_go_keeps_everything_older",
    ),
    Guard(
        "a rival that is terminating is waited for",
        "workers.handlers.record:_Recording._make_room",
        "not each.terminating and ",
        "",
        "tests/unit/workers/test_record.py::test_a_rival_that_goes_by_itself_is_waited_for",
    ),
    Guard(
        "room is made of what keeps the snapshot incomplete alone",
        "workers.handlers.record:_Recording._make_room",
        " if each in rivals]",
        "]",
        "tests/unit/workers/test_record.py::test_an_incomplete_draft_makes_room_before_anything_older_goes",
    ),
    Guard(
        "what is kept as evidence is not replaced",
        "workers.handlers.record:_Recording._replaced",
        "if keeps_evidence(self.composition):",
        "if False:",
        "tests/unit/workers/test_record.py::test_the_evidence_of_an_invalid_inventory_is_kept_for_one_synthesis",
    ),
    Guard(
        "adopted history is replaced only when somebody decided its adoption",
        "workers.handlers.record:_Recording._replaced",
        'adopted_source(self.composition.current) if self.composition.current else ""',
        (
            "next((each.source.composition for each in inventory.sound if each.source.composition != "
            "self.composition.name), '')"
        ),
        "tests/unit/workers/test_record.py::test_other_compositions_of_the_lineage_keep_theirs",
    ),
    Guard(
        "adopted history whose name is in use again is not replaced",
        "workers.handlers.record:_Recording._replaced",
        " or self._in_use(adopted)",
        "",
        (
            "tests/unit/workers/test_record.py::test_adopted_history_stays_when_its_name_is_in_use_ag"
            "ain[before the record]"
        ),
    ),
    Guard(
        "no name is looked up where nothing was adopted",
        "workers.handlers.record:_Recording._replaced",
        "adopted not in {each.source.composition for each in inventory.sound} or ",
        "",
        "first/undisturbed/",
    ),
    Guard(
        "a name that comes back keeps its history before every delete",
        "workers.handlers.record:_Recording._delete",
        "if isinstance(each, StoredChunk) and self._in_use(each.source.composition):",
        "if False:",
        (
            "tests/unit/workers/test_record.py::test_adopted_history_stays_when_its_name_is_in_use_ag"
            "ain[before the delete]"
        ),
    ),
    Guard(
        "record looks again before every delete",
        "workers.handlers.record:_Recording._delete",
        "            self._look_again()\n",
        "",
        "rotation/undisturbed/",
    ),
    Guard(
        "its own name is not a name in use",
        "workers.handlers.record:_Recording._in_use",
        "name != self.composition.name and ",
        "",
        "first/undisturbed/",
    ),
    Guard(
        "record stops when it is overtaken",
        "workers.handlers.record:_Recording._look_again",
        "raise _Overtaken(fresh.reason)",
        "return",
        "rotation/eno/x9:published",
    ),
)
