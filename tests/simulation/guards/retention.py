"""Guards of cleanup: which slices nobody needs."""

from __future__ import annotations

from tests.simulation.mutation import Guard

GUARDS: tuple[Guard, ...] = (
    Guard(
        "a namesake of its owner does not speak for a slice",
        "eno.retention:Case.owner",
        " or self.composition.uid != self.slice.owner.uid",
        "",
        (
            "tests/unit/eno/test_retention.py::test_where_scope_cannot_be_proved_nothing_is_deleted_o"
            "nly_released[only a namesake is alive, a selector]"
        ),
    ),
    Guard(
        "a terminating slice is let go of and not deleted again",
        "eno.retention:slice_fate",
        "if case.slice.deleting:",
        "if False:",
        "rotation/undisturbed/",
    ),
    Guard(
        "slices of another namespace are left alone",
        "eno.retention:out_of_scope",
        "if namespace and case.slice.namespace != namespace:",
        "if False:",
        (
            "tests/unit/eno/test_retention.py::test_a_slice_of_another_namespace_is_left_alone_althou"
            "gh_its_composition_is_gone"
        ),
    ),
    Guard(
        "slices of a composition out of scope are left alone",
        "eno.retention:out_of_scope",
        "case.scope.outside_watch(case.composition) if case.composition else None",
        "None",
        "tests/unit/eno/test_retention.py::test_a_slice_out_of_scope_is_left_alone[other labels]",
    ),
    Guard(
        "a slice of another owner than the watcher saw is kept",
        "eno.retention:watcher_saw_another_owner",
        "if case.asked is None or case.asked.owner_uid == owner:",
        "if True:",
        "tests/unit/eno/test_retention.py::test_what_the_watcher_saw_has_to_agree_about_the_owner[another owner]",
    ),
    Guard(
        "a slice is kept while the watcher saw another synthesis",
        "eno.retention:watcher_saw_another_synthesis",
        'if case.asked is None or case.asked.synthesis_uuid == (current.uuid if current else ""):',
        "if True:",
        (
            "tests/unit/eno/test_retention.py::test_what_the_watcher_saw_has_to_agree_about_the_synth"
            "esis[another synthesis]"
        ),
    ),
    Guard(
        "a slice that others hold is not let go of again",
        "eno.retention:released_already",
        "if CLEANUP_FINALIZER in case.slice.metadata.finalizers:",
        "if True:",
        "tests/unit/eno/test_retention.py::test_only_our_finalizer_is_ours_to_remove[only those of others]",
    ),
    Guard(
        "a terminating slice of current is held until it is reconciled",
        "eno.retention:still_to_be_reconciled",
        "    return Keep(",
        "    return None and Keep(",
        (
            "tests/unit/eno/test_retention.py::test_a_terminating_slice_is_kept_while_current_needs_i"
            "t[referenced by current, not reconciled]"
        ),
    ),
    Guard(
        "a reconciled slice of current is let go of",
        "eno.retention:still_to_be_reconciled",
        " or current.reconciled is not None",
        "",
        (
            "tests/unit/eno/test_retention.py::test_a_terminating_slice_is_kept_while_current_needs_i"
            "t[referenced by current, reconciled]"
        ),
    ),
    Guard(
        "only current holds a terminating slice",
        "eno.retention:still_to_be_reconciled",
        "case.slice.name not in current.slice_names or ",
        "",
        "tests/unit/eno/test_retention.py::test_a_terminating_slice_that_nothing_waits_for_is_released",
    ),
    Guard(
        "a slice that nobody controls is kept",
        "eno.retention:ownerless",
        "if case.slice.owner is None else None",
        "if False else None",
        (
            "tests/unit/eno/test_retention.py::test_a_slice_without_a_controlling_composition_is_left"
            "_alone[no reference]"
        ),
    ),
    Guard(
        "where the scope of a slice cannot be proved it is kept",
        "eno.retention:out_of_proven_scope",
        "if not case.scope.label_selector or case.owner is not None:",
        "if True:",
        (
            "tests/unit/eno/test_retention.py::test_where_scope_cannot_be_proved_nothing_is_deleted_o"
            "nly_released[composition gone, a selector]"
        ),
    ),
    Guard(
        "without a selector a slice goes with its composition",
        "eno.retention:out_of_proven_scope",
        "not case.scope.label_selector or ",
        "",
        "tests/unit/eno/test_retention.py::test_a_slice_that_nothing_needs_is_deleted",
    ),
    Guard(
        "a slice of current is kept",
        "eno.retention:referenced",
        '("current", case.composition.current)',
        '("previous", case.composition.previous)',
        "overflow/undisturbed/",
    ),
    Guard(
        "a slice of previous is kept",
        "eno.retention:referenced",
        ', ("previous", case.composition.previous)',
        ",",
        "rotation/undisturbed/",
    ),
    Guard(
        "a slice that a namesake of its owner names is kept",
        "eno.retention:referenced",
        "if case.composition is None:",
        "if case.composition is None or case.owner is None:",
        "tests/unit/eno/test_retention.py::test_a_slice_that_is_referenced_is_kept[by the namesake's current]",
    ),
    Guard(
        "a slice of the synthesis in flight is kept",
        "eno.retention:made_in_flight",
        "    return Keep(",
        "    return None and Keep(",
        (
            "tests/unit/eno/test_retention.py::test_a_slice_that_a_running_synthesis_may_have_made_is"
            "_kept[stamped with the older UUID]"
        ),
    ),
    Guard(
        "a canceled synthesis keeps no slice",
        "eno.retention:made_in_flight",
        " or synthesis.canceled is not None",
        "",
        "tests/unit/eno/test_retention.py::test_a_slice_that_a_running_synthesis_may_have_made_is_kept[canceled]",
    ),
    Guard(
        "a slice that is stamped for the synthesis in flight is kept however old it is",
        "eno.retention:made_in_flight",
        "not stamped and ",
        "",
        (
            "tests/unit/eno/test_retention.py::test_a_slice_that_a_running_synthesis_may_have_made_is"
            "_kept[its own UUID, however old]"
        ),
    ),
    Guard(
        "a slice with an older stamp may be of the synthesis in flight",
        "eno.retention:made_in_flight",
        "if not stamped and made_before(case.slice.created, synthesis.initialized):",
        "if not stamped:",
        (
            "tests/unit/eno/test_retention.py::test_a_slice_that_a_running_synthesis_may_have_made_is"
            "_kept[stamped with the older UUID]"
        ),
    ),
    Guard(
        "a slice that is older than the synthesis in flight is none of it",
        "eno.retention:made_in_flight",
        "if not stamped and made_before(case.slice.created, synthesis.initialized):",
        "if False:",
        (
            "tests/unit/eno/test_retention.py::test_a_slice_that_a_running_synthesis_may_have_made_is"
            "_kept[created earlier than that]"
        ),
    ),
    Guard(
        "a synthesis in flight may have begun before its clock says",
        "eno.retention:made_before",
        " - CLOCK_SKEW",
        "",
        (
            "tests/unit/eno/test_retention.py::test_a_slice_that_a_running_synthesis_may_have_made_is"
            "_kept[stamped with the older UUID]"
        ),
    ),
    Guard(
        "a synthesis that does not say when it began may have made any slice",
        "eno.retention:made_before",
        "initialized is not None and created <",
        "initialized is None or created <",
        (
            "tests/unit/eno/test_retention.py::test_a_slice_that_a_running_synthesis_may_have_made_is"
            "_kept[nobody knows when it began]"
        ),
    ),
    Guard(
        "a slice without a creation time may be of any synthesis",
        "eno.retention:made_before",
        "created is not None and initialized is not None and created <",
        "created is None or initialized is not None and created <",
        (
            "tests/unit/eno/test_retention.py::test_a_slice_that_a_running_synthesis_may_have_made_is"
            "_kept[nobody knows when it was created]"
        ),
    ),
    Guard(
        "overflow is kept until its recovery has published it",
        "eno.retention:protected_overflow",
        "if pending else None",
        "if False else None",
        "tests/unit/eno/test_retention.py::test_overflow_that_is_not_published_yet_is_kept[not published yet]",
    ),
    Guard(
        "only overflow is protected by a pending recovery",
        "eno.retention:protected_overflow",
        ' or case.slice.labels.get(OVERFLOW_LABEL) != "true"',
        "",
        (
            "tests/unit/eno/test_retention.py::test_overflow_that_is_not_published_yet_is_kept[an "
            "ordinary slice, unmarked]"
        ),
    ),
    Guard(
        "overflow of an older synthesis is not protected",
        "eno.retention:protected_overflow",
        ("case.slice.synthesis_uuid == owner.current.uuid\n        and "),
        "",
        "tests/unit/eno/test_retention.py::test_overflow_that_is_not_published_yet_is_kept[superseded]",
    ),
    Guard(
        "overflow of an opted-out composition is not protected",
        "eno.retention:protected_overflow",
        "and owner.opted_in\n",
        "",
        "tests/unit/eno/test_retention.py::test_overflow_that_is_not_published_yet_is_kept[opted out]",
    ),
    Guard(
        "overflow of a deletion is not protected",
        "eno.retention:protected_overflow",
        "and not owner.deleting\n",
        "",
        "tests/unit/eno/test_retention.py::test_overflow_that_is_not_published_yet_is_kept[deleting]",
    ),
    Guard(
        "overflow of a synthesis with history is not protected",
        "eno.retention:protected_overflow",
        "        and recovery_required(owner, infer=case.infer_required)\n",
        "",
        "tests/unit/eno/test_retention.py::test_overflow_that_is_not_published_yet_is_kept[no recovery is required]",
    ),
    Guard(
        "overflow that a decision left out is not protected",
        "eno.retention:protected_overflow",
        "        and not finished(owner.current)\n",
        "",
        "tests/unit/eno/test_retention.py::test_overflow_that_is_not_published_yet_is_kept[finished without it]",
    ),
    Guard(
        "protected overflow is looked at again",
        "eno.retention:protected_overflow",
        "case.now + OVERFLOW_PAUSE",
        "None",
        "tests/unit/eno/test_retention.py::test_overflow_that_is_not_published_yet_is_kept[not published yet]",
    ),
    Guard(
        "a young slice is kept",
        "eno.retention:young",
        "if case.now < until else None",
        "if False else None",
        "tests/unit/eno/test_retention.py::test_a_slice_is_kept_until_it_is_older_than_5_s[created in the future]",
    ),
    Guard(
        "a slice without a creation time is kept",
        "eno.retention:young",
        ("if case.slice.created is None:\n        return Keep"),
        ("if case.slice.created is None:\n        return None and Keep"),
        "tests/unit/eno/test_retention.py::test_a_slice_without_a_creation_time_is_kept",
    ),
    Guard(
        "a slice is kept until it is older than 5 s",
        "eno.retention:old_enough_at",
        " + datetime.resolution",
        "",
        "tests/unit/eno/test_retention.py::test_a_slice_is_kept_until_it_is_older_than_5_s[created in the future]",
    ),
    Guard(
        "a young slice is looked at again",
        "eno.retention:young",
        'Keep("it is young", until)',
        'Keep("it is young")',
        "tests/unit/eno/test_retention.py::test_a_slice_is_kept_until_it_is_older_than_5_s[created in the future]",
    ),
)
