"""Guards of patches, which hit only what was read, and of what of an answer is believed."""

from __future__ import annotations

from tests.simulation.mutation import Guard

_GUARDS = "tests/unit/kube/test_guards.py"
_REPLIES = "tests/unit/kube/test_replies.py"

GUARDS: tuple[Guard, ...] = (
    Guard(
        "a patch hits only the very object that was read",
        "kube.guards:guarded",
        '("uid", "resourceVersion")',
        '("resourceVersion",)',
        (f"{_GUARDS}::test_every_patch_fails_on_another_state_and_on_another_object[uid-setting the first annotation]"),
    ),
    Guard(
        "a patch hits only the very state that was read",
        "kube.guards:guarded",
        '("uid", "resourceVersion")',
        '("uid",)',
        (
            f"{_GUARDS}::test_every_patch_fails_on_another_state_and_on_another_object"
            "[resourceVersion-setting the first annotation]"
        ),
    ),
    Guard(
        "what cannot be guarded is not patched",
        "kube.guards:guarded",
        "if not isinstance(value, str) or not value:",
        "if False:",
        (f"{_GUARDS}::test_an_object_that_cannot_be_guarded_is_not_patched[None-uid-setting the first annotation]"),
    ),
    Guard(
        "a patch changes nothing before it has tested",
        "kube.guards:guarded",
        "[*tests, *then]",
        "[*then, *tests]",
        f"{_GUARDS}::test_the_tests_come_before_every_change",
    ),
    Guard(
        "a finalizer that moved in its list is not removed by its old place",
        "kube.guards:remove_finalizer",
        "test(path, finalizer), ",
        "",
        f"{_GUARDS}::test_a_finalizer_list_that_shifted_is_not_touched",
    ),
    Guard(
        "appended resources replace none",
        "kube.guards:append_resources",
        "if present else",
        "if False else",
        f"{_GUARDS}::test_appended_resources_follow_the_ones_that_were_there[an array]",
    ),
    Guard(
        "a status is set only while the condition of the caller holds",
        "kube.guards:status_patch",
        "*expected, ",
        "",
        f"{_GUARDS}::test_a_condition_of_the_caller_is_tested_too",
    ),
    Guard(
        "a status that says so already is not written",
        "kube.guards:status_patch",
        "if not _has(obj, path) or _lookup(obj, path) != value:",
        "if True:",
        f"{_GUARDS}::test_a_status_that_already_says_so_needs_no_patch",
    ),
    Guard(
        "a field is put to null although it is absent",
        "kube.guards:status_patch",
        "not _has(obj, path) or ",
        "",
        f"{_GUARDS}::test_an_absent_field_set_to_null_is_a_change",
    ),
    Guard(
        "only what is there is cleared",
        "kube.guards:status_patch",
        " if _has(obj, path))",
        ")",
        f"{_GUARDS}::test_clearing_removes_only_what_is_there",
    ),
    Guard(
        "a patch without changes is none",
        "kube.guards:status_patch",
        "if changes else None",
        "",
        f"{_GUARDS}::test_a_status_that_already_says_so_needs_no_patch",
    ),
    Guard(
        "a parent that is there is not emptied",
        "kube.guards:_put",
        " and _lookup(obj, parent) is None",
        "",
        f"{_GUARDS}::test_setting_an_annotation[others are kept]",
    ),
    Guard(
        "a parent that the same patch has made is not emptied",
        "kube.guards:_put",
        "parent not in made and ",
        "",
        f"{_GUARDS}::test_status_fields_are_set_together[no status yet]",
    ),
    Guard(
        "no entry of an array is made up",
        "kube.guards:_put",
        "isinstance(parent[-1], str) and ",
        "",
        f"{_GUARDS}::test_an_entry_of_an_array_is_never_made_up",
    ),
    Guard(
        "a slash in a key is no step",
        "kube.guards:pointer",
        '.replace("/", "~1")',
        "",
        (f"{_GUARDS}::test_every_patch_fails_on_another_state_and_on_another_object[uid-setting the first annotation]"),
    ),
    Guard(
        "a tilde in a key is escaped before the slash",
        "kube.guards:pointer",
        '.replace("~", "~0").replace("/", "~1")',
        '.replace("/", "~1").replace("~", "~0")',
        (f"{_GUARDS}::test_a_pointer_escapes_tilde_before_slash[path2-/metadata/annotations/eno.azure.io~1x]"),
    ),
    Guard(
        "an answer that is no JSON object is not believed",
        "kube.replies:object_from",
        "if obj is None:",
        'if obj is None and (obj := {"kind": request.kind}) is None:',
        f"{_REPLIES}::test_a_success_without_the_promised_object_is_a_bad_response[nothing]",
    ),
    Guard(
        "an answer of another kind is not believed",
        "kube.replies:object_from",
        "check_kind(request, obj)",
        "pass",
        f"{_REPLIES}::test_a_list_that_is_not_all_there_is_not_an_empty_list[another kind]",
    ),
    Guard(
        "a list without items is not empty",
        "kube.replies:page_from",
        ' and "items" in answer',
        "",
        f"{_REPLIES}::test_an_empty_list_of_metadata_may_say_null_but_must_say_so",
    ),
    Guard(
        "only a list of metadata may say null",
        "kube.replies:page_from",
        ' and request.kind == "PartialObjectMetadataList"',
        "",
        f"{_REPLIES}::test_a_list_that_is_not_all_there_is_not_an_empty_list[null items]",
    ),
    Guard(
        "items that are no list are no empty list",
        "kube.replies:page_from",
        "if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):",
        "if not all(isinstance(item, dict) for item in items or ()):",
        f"{_REPLIES}::test_a_list_that_is_not_all_there_is_not_an_empty_list[no items]",
    ),
    Guard(
        "an item that is no object makes no list",
        "kube.replies:page_from",
        " or not all(isinstance(item, dict) for item in items)",
        "",
        f"{_REPLIES}::test_a_list_that_is_not_all_there_is_not_an_empty_list[an item that is no object]",
    ),
    Guard(
        "a list without a version is not believed",
        "kube.replies:page_from",
        "not isinstance(version, str) or not version or ",
        "",
        f"{_REPLIES}::test_a_list_that_is_not_all_there_is_not_an_empty_list[no metadata]",
    ),
    Guard(
        "a token of another form does not end a list",
        "kube.replies:page_from",
        " or not isinstance(token, str)",
        "",
        f"{_REPLIES}::test_a_list_that_is_not_all_there_is_not_an_empty_list[a token of another type]",
    ),
    Guard(
        "no Retry-After silences a client for longer than an hour",
        "kube.replies:retry_after_from",
        "min(seconds, RETRY_AFTER_LIMIT)",
        "seconds",
        f"{_REPLIES}::test_retry_after_holds_seconds_or_a_date[absurd]",
    ),
    Guard(
        "a Retry-After in the past is no pause",
        "kube.replies:retry_after_from",
        " if seconds > 0 else None",
        "",
        f"{_REPLIES}::test_retry_after_holds_seconds_or_a_date[a date that is over]",
    ),
)
