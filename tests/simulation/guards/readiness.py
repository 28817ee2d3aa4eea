"""Guards of the gate: when a synthesis is ready and reconciled, and when an inventory is settled."""

from __future__ import annotations

from tests.simulation.mutation import Guard

GUARDS: tuple[Guard, ...] = (
    Guard(
        "only an opted-in composition waits for a decision",
        "eno.readiness:held",
        "composition.opted_in and ",
        "",
        "tests/unit/eno/test_readiness.py::test_readiness_is_held[not annotated]",
    ),
    Guard(
        "a deletion does not wait for a decision",
        "eno.readiness:held",
        "not composition.deleting and ",
        "",
        "settled/undisturbed/",
    ),
    Guard(
        "what is not synthesized yet is held",
        "eno.readiness:held",
        "current is None or not finished(current)",
        "current is not None and not finished(current)",
        "tests/unit/eno/test_readiness.py::test_what_is_not_synthesized_yet_is_held",
    ),
    Guard(
        "an undecided synthesis is held",
        "eno.readiness:held",
        "not finished(current)",
        "False",
        "loaded/errors/c0:404",
    ),
    Guard(
        "the slices of a symphony that is being deleted are skipped",
        "eno.readiness:skips_slices",
        'composition.labels.get(SYMPHONY_DELETING_LABEL) == "true"',
        "False",
        "tests/unit/eno/test_readiness.py::test_slices_of_a_symphony_that_is_deleting_are_skipped",
    ),
    Guard(
        "only a deletion strategy of orphan lets resources go",
        "eno.readiness:orphans",
        '== "orphan"',
        '!= "never"',
        "deleted/undisturbed/",
    ),
    Guard(
        "no verdict calls an undecided synthesis ready",
        "eno.readiness:verdict",
        "if held(composition):",
        "if False:",
        "loaded/errors/c0:404",
    ),
    Guard(
        "no verdict is given while a slice is missing",
        "eno.readiness:verdict",
        "if len(whole) < len(counted) and not composition.deleting:",
        "if False:",
        "first/eno/b5:act=slice-lost",
    ),
    Guard(
        "a lost slice does not hold a deletion up",
        "eno.readiness:verdict",
        "len(whole) < len(counted) and not composition.deleting",
        "len(whole) < len(counted)",
        (
            "tests/unit/eno/test_readiness.py::test_a_hole_is_skipped_while_deleting_and_otherwise_le"
            "aves_it_open[a slice is missing]"
        ),
    ),
    Guard(
        "a synthesis is reconciled when all of its slices are",
        "eno.readiness:verdict",
        "None if any(unreconciled(each, composition) for each in whole) else ",
        "",
        "gradual/undisturbed/",
    ),
    Guard(
        "a reconciled time that stands is kept",
        "eno.readiness:verdict",
        "current.reconciled or now",
        "now",
        "first/undisturbed/",
    ),
    Guard(
        "an empty synthesis becomes ready one pass later",
        "eno.readiness:verdict",
        "_ready(whole, current.reconciled)",
        "_ready(whole, reconciled)",
        (
            "tests/unit/eno/test_readiness.py::test_an_empty_synthesis_becomes_ready_at_its_reconcile"
            "d_time_one_pass_later[one]"
        ),
    ),
    Guard(
        "a symphony's slices take no part in the verdict",
        "eno.readiness:verdict",
        "[] if skips_slices(composition) else slices",
        "slices",
        "tests/unit/eno/test_readiness.py::test_slices_of_a_symphony_that_is_deleting_are_skipped",
    ),
    Guard(
        "a slice without all states is not reconciled",
        "eno.readiness:unreconciled",
        "if len(each.states) < expected:",
        "if False:",
        "gradual/undisturbed/",
    ),
    Guard(
        "a slice is reconciled when all of its states are",
        "eno.readiness:unreconciled",
        "if not waiting:",
        "if True:",
        "gradual/undisturbed/",
    ),
    Guard(
        "a slice is ready when all of its states are",
        "eno.readiness:unready",
        "if waiting else None",
        "if False else None",
        "gradual/undisturbed/",
    ),
    Guard(
        "a resource without a state is not ready",
        "eno.readiness:unready",
        "waiting = expected - ",
        "waiting = len(_states(each)) - ",
        "gradual/undisturbed/",
    ),
    Guard(
        "a foreign readiness is corrected at once only twice a minute",
        "eno.readiness:correction_pause",
        "if times <= TOLERATED_CORRECTIONS:",
        "if True:",
        (
            "tests/unit/eno/test_readiness.py::test_a_foreign_readiness_is_corrected_with_growing_pau"
            "ses_from_the_third_time_on"
        ),
    ),
    Guard(
        "the first corrections are not delayed",
        "eno.readiness:correction_pause",
        "if times <= TOLERATED_CORRECTIONS:",
        "if False:",
        "tests/unit/workers/test_gate.py::test_where_somebody_else_aggregates_the_gate_holds_all_the_same",
    ),
    Guard(
        "the pauses of a contest grow",
        "eno.readiness:correction_pause",
        "2.0 ** min(times - TOLERATED_CORRECTIONS, 16)",
        "2.0",
        (
            "tests/unit/workers/test_gate.py::test_a_contested_readiness_is_corrected_with_growing_pa"
            "uses_from_the_third_time_within_a_minute_on"
        ),
    ),
    Guard(
        "no pause of a contest is longer than a minute",
        "eno.readiness:correction_pause",
        "min(timedelta(seconds=seconds), LONGEST_CORRECTION_PAUSE)",
        "timedelta(seconds=seconds)",
        (
            "tests/unit/eno/test_readiness.py::test_a_foreign_readiness_is_corrected_with_growing_pau"
            "ses_from_the_third_time_on"
        ),
    ),
    Guard(
        "states beyond the resources do not count",
        "eno.readiness:_states",
        "each.states[: len(each.resources)]",
        "each.states",
        "tests/unit/eno/test_readiness.py::test_states_beyond_the_resources_do_not_count",
    ),
    Guard(
        "a synthesis is ready when all of its slices are",
        "eno.readiness:_ready",
        "if any(unready(each) for each in slices):",
        "if False:",
        "gradual/undisturbed/",
    ),
    Guard(
        "a synthesis is ready when the last of its resources was",
        "eno.readiness:_ready",
        "max(times",
        "min(times",
        "tests/unit/eno/test_readiness.py::test_the_ready_time_is_the_latest_of_all_states",
    ),
    Guard(
        "a resource is reconciled when its state says so",
        "eno.readiness:_reconciled",
        "if not state.reconciled:",
        "if False:",
        "gradual/undisturbed/",
    ),
    Guard(
        "a resource of a deletion is reconciled when it is deleted",
        "eno.readiness:_reconciled",
        "not composition.deleting or state.deleted or orphans(composition)",
        "True",
        "settled/eno/x4:deleted",
    ),
    Guard(
        "what is let go on purpose need not be deleted",
        "eno.readiness:_reconciled",
        " or orphans(composition)",
        "",
        "orphaned/undisturbed/",
    ),
    Guard(
        "an error is told only while Eno reconciles",
        "eno.readiness:_worst_error",
        ' or composition.simplified.status != "Reconciling"',
        "",
        "tests/unit/eno/test_readiness.py::test_the_simplified_error[not reconciling: not ours to set]",
    ),
    Guard(
        "the error that is told does not depend on the order of states",
        "eno.readiness:_worst_error",
        "max((state",
        "min((state",
        "tests/unit/eno/test_readiness.py::test_the_simplified_error[the greatest]",
    ),
    Guard(
        "no resynthesis is asked for when it is refused",
        "eno.readiness:resynthesis",
        " or resynthesis_refused(composition) is not None",
        "",
        (
            "tests/unit/eno/test_readiness.py::test_a_resynthesis_is_never_asked_for_when[side "
            "effects are ignored-nameless]"
        ),
    ),
    Guard(
        "a nameless reference calls for a resynthesis",
        "eno.readiness:resynthesis",
        "if Hole.NAMELESS in slices:",
        "if False:",
        "tests/unit/eno/test_readiness.py::test_a_resynthesis_is_called_for_by[a nameless reference]",
    ),
    Guard(
        "a missing slice calls for a resynthesis",
        "eno.readiness:resynthesis",
        "if Hole.MISSING in slices:",
        "if False:",
        "first/eno/b7:act=slice-lost",
    ),
    Guard(
        "a slice may be missing for a moment",
        "eno.readiness:resynthesis",
        "due if now < due else None",
        "None",
        "tests/unit/eno/test_readiness.py::test_a_missing_slice_counts_5_s_after_its_synthesis[just synthesized]",
    ),
    Guard(
        "a slice that terminates before the decision calls for a resynthesis",
        "eno.readiness:resynthesis",
        "if undecided and any(",
        "if False and any(",
        "tests/unit/eno/test_readiness.py::test_a_resynthesis_is_called_for_by[a terminating slice]",
    ),
    Guard(
        "a slice that terminates calls for a resynthesis only when it is opted in",
        "eno.readiness:resynthesis",
        "composition.opted_in and ",
        "",
        "tests/unit/eno/test_readiness.py::test_no_resynthesis_is_called_for_by[a terminating slice, not opted in]",
    ),
    Guard(
        "a slice that terminates calls for a resynthesis only where it is recovered",
        "eno.readiness:resynthesis",
        "recovers and ",
        "",
        (
            "tests/unit/eno/test_readiness.py::test_no_resynthesis_is_called_for_by[a terminating "
            "slice outside the recovery scope]"
        ),
    ),
    Guard(
        "a slice that terminates after the decision is left to end",
        "eno.readiness:resynthesis",
        " and not finished(current)",
        "",
        (
            "tests/unit/eno/test_readiness.py::test_no_resynthesis_is_called_for_by[a terminating "
            "slice of a decided synthesis]"
        ),
    ),
    Guard(
        "only a slice that terminates calls for a resynthesis before the decision",
        "eno.readiness:resynthesis",
        " and each.deleting for",
        " for",
        "tests/unit/eno/test_readiness.py::test_no_resynthesis_is_called_for_by[whole slices]",
    ),
)
