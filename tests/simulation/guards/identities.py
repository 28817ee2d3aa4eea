"""Guards of identities: what a manifest stands for, and what may be the same object."""

from __future__ import annotations

from tests.simulation.mutation import Guard

GUARDS: tuple[Guard, ...] = (
    Guard(
        "only what was encoded is decoded to an identity",
        "eno.identity:ResourceId.decode",
        "if identity.encode() == text:",
        "if True:",
        "tests/unit/eno/test_identity.py::test_decoding_takes_only_what_encoding_makes",
    ),
    Guard(
        "a kind is cluster-scoped under its older group, too",
        "eno.identity:ResourceId.cluster_scoped",
        "self.canonical_group",
        "self.group",
        (
            "tests/unit/eno/test_identity.py::test_comparing_errs_on_the_side_of_wanted[cluster-scoped kind "
            "under its older group]"
        ),
    ),
    Guard(
        "a kind of somebody else is not cluster-scoped for its name",
        "eno.identity:ResourceId.cluster_scoped",
        " and (self.canonical_group, self.kind) in _CLUSTER_SCOPED",
        "",
        (
            "tests/unit/eno/test_identity.py::test_comparing_errs_on_the_side_of_wanted[same kind in a "
            "group of somebody else]"
        ),
    ),
    Guard(
        "what moved to another group is the same object there",
        "eno.identity:ResourceId.canonical_group",
        "_ALIASES.get((self.group, self.kind), self.group)",
        "self.group",
        "tests/unit/eno/test_identity.py::test_comparing_errs_on_the_side_of_wanted[extensions Ingress]",
    ),
    Guard(
        "what Eno is told not to reconcile is not managed",
        "eno.identity:Head.managed",
        'if self.annotations.get(DISABLE_RECONCILIATION_ANNOTATION) == "true":',
        "if False:",
        "tests/unit/eno/test_identity.py::test_what_eno_was_told_to_leave_alone_is_not_managed[disabled]",
    ),
    Guard(
        "what an override keeps Eno from is not managed",
        "eno.identity:Head.managed",
        "return DISABLE_RECONCILIATION_ANNOTATION not in overrides + _unescaped(overrides)",
        "return True",
        (
            "tests/unit/eno/test_identity.py::test_what_eno_was_told_to_leave_alone_is_not_managed[disabled "
            "by an override]"
        ),
    ),
    Guard(
        "an override is read through its escapes",
        "eno.identity:Head.managed",
        " + _unescaped(overrides)",
        "",
        "tests/unit/eno/test_identity.py::test_what_eno_was_told_to_leave_alone_is_not_managed[escaped override]",
    ),
    Guard(
        "an override that is no JSON is read as it stands",
        "eno.identity:Head.managed",
        "overrides + _unescaped(overrides)",
        "_unescaped(overrides)",
        "tests/unit/eno/test_identity.py::test_what_eno_was_told_to_leave_alone_is_not_managed[in doubt not managed]",
    ),
    Guard(
        "a Patch of another group is an ordinary resource",
        "eno.identity:parse_head",
        " and _split(document.api_version)[0] == GROUP",
        "",
        "tests/unit/eno/test_identity.py::test_other_kinds_may_have_a_patch_of_any_shape[null]",
    ),
    Guard(
        "a Patch stands for its target",
        "eno.identity:parse_head",
        "target = _target_decoder.decode(document.patch) if is_patch else document",
        "target = document",
        "tests/unit/eno/test_identity.py::test_the_identity_of_a_patch_is_its_target",
    ),
    Guard(
        "a manifest without a version is malformed",
        "eno.identity:parse_head",
        "version and target.kind and",
        "target.kind and",
        "tests/unit/eno/test_identity.py::test_a_manifest_that_cannot_be_identified_is_malformed[empty version]",
    ),
    Guard(
        "a Patch without a target kind is malformed",
        "eno.identity:parse_head",
        " and target.kind",
        "",
        (
            "tests/unit/eno/test_identity.py::test_a_manifest_that_cannot_be_identified_is_malformed[Patch "
            "without a target kind]"
        ),
    ),
    Guard(
        "a manifest without a name is malformed",
        "eno.identity:parse_head",
        " and metadata.name)",
        ")",
        "tests/unit/eno/test_identity.py::test_a_manifest_that_cannot_be_identified_is_malformed[no name]",
    ),
    Guard(
        "a manifest that is not JSON is malformed",
        "eno.identity:parse_head",
        "msgspec.DecodeError, UnicodeError,",
        "UnicodeError,",
        "tests/unit/eno/test_identity.py::test_a_manifest_that_cannot_be_identified_is_malformed[not JSON]",
    ),
    Guard(
        "a manifest that is not Unicode is malformed",
        "eno.identity:parse_head",
        " UnicodeError,",
        "",
        (
            "tests/unit/eno/test_identity.py::test_a_manifest_that_cannot_be_identified_is_malformed[text "
            "that is not Unicode]"
        ),
    ),
    Guard(
        "a manifest that is nested too deeply is malformed",
        "eno.identity:parse_head",
        ", RecursionError",
        "",
        "tests/unit/eno/test_identity.py::test_a_manifest_that_cannot_be_identified_is_malformed[nested too deeply]",
    ),
    Guard(
        "a name that is wanted in a second namespace is wanted in both",
        "eno.identity:Wanted.__init__",
        "self._namespaces[key] = {found, namespace}",
        "pass",
        (
            "tests/unit/eno/test_identity.py::test_a_name_that_is_wanted_in_several_namespaces_is_wanted_in_"
            "each[the second of two]"
        ),
    ),
    Guard(
        "a name that is wanted in a third namespace is wanted there, too",
        "eno.identity:Wanted.__init__",
        "found.add(namespace)",
        "pass",
        (
            "tests/unit/eno/test_identity.py::test_a_name_that_is_wanted_in_several_namespaces_is_wanted_in_"
            "each[the third]"
        ),
    ),
    Guard(
        "an identity that leaves its namespace open may be any that is wanted",
        "eno.identity:Wanted.__contains__",
        "not namespace or ",
        "",
        "tests/unit/eno/test_identity.py::test_comparing_errs_on_the_side_of_wanted[asked without a namespace]",
    ),
    Guard(
        "the namespace of what is cluster-scoped does not count",
        "eno.identity:Wanted.__contains__",
        "if not namespace or (kind in _CLUSTER_SCOPED_KINDS and identity.cluster_scoped):",
        "if not namespace:",
        "tests/unit/eno/test_identity.py::test_comparing_errs_on_the_side_of_wanted[cluster-scoped kind]",
    ),
    Guard(
        "what is wanted without a namespace is wanted in all of them",
        "eno.identity:Wanted.__contains__",
        'return found in (namespace, "")',
        "return found == namespace",
        "tests/unit/eno/test_identity.py::test_comparing_errs_on_the_side_of_wanted[current without a namespace]",
    ),
    Guard(
        "what is wanted without a namespace among others is wanted in all of them",
        "eno.identity:Wanted.__contains__",
        ' or "" in found',
        "",
        (
            "tests/unit/eno/test_identity.py::test_a_name_that_is_wanted_in_several_namespaces_is_wanted_in_"
            "each[an open one among them]"
        ),
    ),
    Guard(
        "what is compared is compared under the group of today",
        "eno.identity:_key",
        "(identity.canonical_group, kind, name) if kind in _ALIASED_KINDS else (group, kind, name)",
        "(group, kind, name)",
        "tests/unit/eno/test_identity.py::test_comparing_errs_on_the_side_of_wanted[extensions Deployment]",
    ),
    Guard(
        "an apiVersion with an empty group is malformed",
        "eno.identity:_split",
        "not group or ",
        "",
        "tests/unit/eno/test_identity.py::test_a_manifest_that_cannot_be_identified_is_malformed[empty group]",
    ),
    Guard(
        "an apiVersion with two slashes is malformed",
        "eno.identity:_split",
        ' or "/" in group',
        "",
        "tests/unit/eno/test_identity.py::test_a_manifest_that_cannot_be_identified_is_malformed[two slashes]",
    ),
    Guard(
        "an override that is no JSON stops nobody",
        "eno.identity:_unescaped",
        "ValueError, RecursionError",
        "RecursionError",
        "tests/unit/eno/test_identity.py::test_what_eno_was_told_to_leave_alone_is_not_managed[in doubt not managed]",
    ),
    Guard(
        "an override that is nested too deeply stops nobody",
        "eno.identity:_unescaped",
        ", RecursionError",
        "",
        (
            "tests/unit/eno/test_identity.py::test_what_eno_was_told_to_leave_alone_is_not_managed[an "
            "override that is nested too deeply]"
        ),
    ),
)
