"""Guards of cleanup's calls: what it reads, and what its writes are bound to."""

from __future__ import annotations

from tests.simulation.mutation import Guard

GUARDS: tuple[Guard, ...] = (
    Guard(
        "cleanup reads no slice of another namespace",
        "workers.handlers.cleanup:_attempt",
        'if namespace not in ("", message.namespace):',
        "if False:",
        "tests/unit/workers/test_cleanup.py::test_a_message_about_another_namespace_changes_nothing",
    ),
    Guard(
        "a slice that is gone is what was wanted",
        "workers.handlers.cleanup:_look",
        ("except NotFound:\n        return None"),
        ("except NotFound:\n        raise"),
        "tests/unit/workers/test_cleanup.py::test_the_composition_is_never_modified",
    ),
    Guard(
        "a slice that cannot be judged keeps no other from going",
        "workers.handlers.cleanup:_look",
        'return _told(name, Keep(f"it cannot be judged: {error.what}"), message, logging.WARNING)',
        "raise",
        (
            "tests/unit/workers/test_cleanup.py::test_a_slice_that_cannot_be_judged_is_kept_and_does_"
            "not_keep_others_from_going"
        ),
    ),
    Guard(
        "the composition is read after the slice",
        "workers.handlers.cleanup:_look",
        (
            "    try:\n"
            "        obj = context.upstream.get(RESOURCE_SLICES, message.namespace, name)\n"
            "    except NotFound:\n"
            "        return None\n"
            "    try:\n"
            "        each = ResourceSlice.from_json(obj)\n"
            "        fate = slice_fate(_case(each, message, context))\n"
        ),
        (
            "    early = read(context.upstream, message.namespace, message.name)\n"
            "    try:\n"
            "        obj = context.upstream.get(RESOURCE_SLICES, message.namespace, name)\n"
            "    except NotFound:\n"
            "        return None\n"
            "    try:\n"
            "        each = ResourceSlice.from_json(obj)\n"
            "        from dataclasses import replace\n"
            "        from workers.freshness import Live\n"
            "        fate = slice_fate(Case(each, early.composition if early else None, "
            "context.clock(), context.settings.scope, Asked(message.uid, message.synthesis_uuid), "
            "context.settings.infer_required))\n"
        ),
        "rotation/undisturbed/",
    ),
    Guard(
        "cleanup judges by what its owner is now",
        "workers.handlers.cleanup:_case",
        "read(context.upstream, message.namespace, each.owner.name) if each.owner else None",
        "None",
        "rotation/undisturbed/",
    ),
    Guard(
        "cleanup hands on what the watcher saw",
        "workers.handlers.cleanup:_case",
        "asked=Asked(message.uid, message.synthesis_uuid),",
        "asked=None,",
        "tests/unit/workers/test_cleanup.py::test_a_slice_of_another_owner_than_the_watcher_saw_is_kept",
    ),
    Guard(
        "cleanup removes no finalizer but ours",
        "workers.handlers.cleanup:_release",
        "operations = guards.remove_finalizer(obj, CLEANUP_FINALIZER)",
        "operations = guards.guarded(obj, [guards.remove(('metadata', 'finalizers'))])",
        "tests/unit/workers/test_cleanup.py::test_a_release_tests_uid_and_version_and_the_value_at_its_index",
    ),
    Guard(
        "a release is bound to the slice as it was read",
        "workers.handlers.cleanup:_release",
        "operations = guards.remove_finalizer(obj, CLEANUP_FINALIZER)",
        "operations = (guards.remove_finalizer(obj, CLEANUP_FINALIZER) or [])[2:]",
        "rotation/undisturbed/",
    ),
    Guard(
        "a release of a slice that is gone is done",
        "workers.handlers.cleanup:_release",
        ("except NotFound:\n        return"),
        ("except NotFound:\n        raise"),
        "tests/unit/workers/test_cleanup.py::test_a_slice_that_goes_meanwhile_is_success[release]",
    ),
    Guard(
        "a delete of a slice carries its UID",
        "workers.handlers.cleanup:_delete",
        "uid=each.uid, ",
        "uid=None, ",
        "rotation/undisturbed/",
    ),
    Guard(
        "a delete of a slice carries its version",
        "workers.handlers.cleanup:_delete",
        "resource_version=each.resource_version",
        "resource_version=None",
        "rotation/undisturbed/",
    ),
    Guard(
        "a delete of a slice that is gone is done",
        "workers.handlers.cleanup:_delete",
        ("except NotFound:\n        return"),
        ("except NotFound:\n        raise"),
        "tests/unit/workers/test_cleanup.py::test_a_slice_that_goes_meanwhile_is_success[delete]",
    ),
    Guard(
        "a slice that changes before its delete is judged anew",
        "workers.handlers.cleanup:_delete",
        'raise StartOver("it has changed since it was read", where=f"resourceslice {each.title}") from error',
        "return",
        "tests/unit/workers/test_cleanup.py::test_a_slice_that_changes_before_it_is_deleted_is_judged_anew",
    ),
    Guard(
        "a refused release of an unchanged slice is no lost race",
        "workers.handlers.cleanup:_changed",
        "if (now.uid, now.resource_version) == (each.uid, each.resource_version):",
        "if False:",
        "tests/unit/workers/test_cleanup.py::test_a_refused_release_of_an_unchanged_slice_is_raised_as_it_is[422]",
    ),
    Guard(
        "a slice that changes before its release is judged anew",
        "workers.handlers.cleanup:_changed",
        "if (now.uid, now.resource_version) == (each.uid, each.resource_version):",
        "if True:",
        (
            "tests/unit/workers/test_cleanup.py::test_a_finalizer_that_somebody_else_inserts_survives"
            "[between read and patch-before ours]"
        ),
    ),
    Guard(
        "the earliest wait of a slice counts",
        "workers.handlers.cleanup:_summary",
        "min(waits)",
        "max(waits)",
        "tests/unit/workers/test_cleanup.py::test_the_earliest_wait_counts_and_does_not_keep_others_from_going",
    ),
    Guard(
        "a wait of one slice is a wait of the task",
        "workers.handlers.cleanup:_summary",
        "if waits:",
        "if False:",
        "tests/unit/workers/test_cleanup.py::test_a_young_slice_waits_for_the_rest_of_5_s_by_its_own_creation_time",
    ),
)
