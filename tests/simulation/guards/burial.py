"""Guards of burial: what is owed, what is wanted, and what is held."""

from __future__ import annotations

from tests.simulation.mutation import Guard

GUARDS: tuple[Guard, ...] = (
    Guard(
        "what is buried already is not buried again",
        "eno.tombstones:Manifests.identities",
        "(*self.desired, *self.tombstones)",
        "self.desired",
        "tests/unit/eno/test_tombstones.py::test_every_current_manifest_counts_as_wanted[tombstone]",
    ),
    Guard(
        "what is cluster-scoped lives in no namespace",
        "eno.tombstones:Holds.__init__",
        "if not identity.cluster_scoped:",
        "if True:",
        "tests/unit/eno/test_tombstones.py::test_what_something_wanted_lives_in_is_held[own-cluster-scoped]",
    ),
    Guard(
        "what names no namespace lives in the default one",
        "eno.tombstones:Holds.__init__",
        ' or "default"',
        "",
        (
            "tests/unit/eno/test_tombstones.py::test_what_something_wanted_lives_in_is_held[own-an open "
            "namespace may mean default]"
        ),
    ),
    Guard(
        "a namespace is held while something wanted lives in it",
        "eno.tombstones:Holds.holds",
        "return name in self._namespaces",
        "return False",
        "siblings/undisturbed/",
    ),
    Guard(
        "a Namespace of another group is not held",
        "eno.tombstones:Holds.holds",
        ' and group == ""',
        "",
        "tests/unit/eno/test_tombstones.py::test_what_something_wanted_lives_in_is_held[own-a Namespace of others]",
    ),
    Guard(
        "a definition is held while something wanted is of its group",
        "eno.tombstones:Holds.holds",
        'return name.partition(".")[2] in self._groups',
        "return False",
        "tests/unit/eno/test_tombstones.py::test_what_something_wanted_lives_in_is_held[own-a definition in use]",
    ),
    Guard(
        "a CustomResourceDefinition of another group is not held",
        "eno.tombstones:Holds.holds",
        ' and group == "apiextensions.k8s.io"',
        "",
        "tests/unit/eno/test_tombstones.py::test_what_something_wanted_lives_in_is_held[own-a definition of others]",
    ),
    Guard(
        "a synthesis is loaded when any of its slices is",
        "eno.tombstones:manifests",
        "loaded = loaded or bool(each.states)",
        "loaded = bool(each.states)",
        "tests/unit/eno/test_tombstones.py::test_a_synthesis_is_loaded_when_any_of_its_slices_is",
    ),
    Guard(
        "a tombstone is no wish",
        "eno.tombstones:manifests",
        "if not entry.deleted:",
        "if True:",
        "tests/unit/eno/test_tombstones.py::test_a_tombstone_of_a_sibling_is_no_wish",
    ),
    Guard(
        "a tombstone that Eno has not carried out may be unseen",
        "eno.tombstones:manifests",
        "if index >= len(each.states) or not each.states[index].reconciled:",
        "if False:",
        (
            "tests/unit/eno/test_tombstones.py::test_eno_must_load_again_what_it_loaded_without_the_tombston"
            "es[buried by an earlier attempt, unseen]"
        ),
    ),
    Guard(
        "a tombstone is seen only when it is reconciled",
        "eno.tombstones:manifests",
        " or not each.states[index].reconciled",
        "",
        (
            "tests/unit/eno/test_tombstones.py::test_eno_must_load_again_what_it_loaded_without_the_tombston"
            "es[buried, not reconciled yet]"
        ),
    ),
    Guard(
        "what a manifest may mean is not missing",
        "eno.tombstones:missing",
        " if identity not in wanted",
        "",
        "tests/unit/eno/test_tombstones.py::test_what_a_manifest_may_mean_is_not_missing[an older group]",
    ),
    Guard(
        "what a sibling wants is not buried",
        "eno.tombstones:settle",
        "theirs = [head.id for manifests in sibling_manifests for head in manifests.desired]",
        "theirs = []",
        "siblings/undisturbed/",
    ),
    Guard(
        "what a sibling is remembered to own is not buried",
        "eno.tombstones:settle",
        "theirs += [entry.id for entry in sibling_inventory]",
        "pass",
        "tests/unit/eno/test_tombstones.py::test_what_an_unsynthesized_sibling_is_remembered_to_own_is_not_buried",
    ),
    Guard(
        "a sibling's wish is compared in doubt",
        "eno.tombstones:settle",
        "[entry for entry in absent if entry.id not in wanted] if theirs else absent",
        "[entry for entry in absent if entry.id not in theirs]",
        "tests/unit/eno/test_tombstones.py::test_what_a_sibling_may_mean_is_not_buried",
    ),
    Guard(
        "what siblings want keeps what it lives in",
        "eno.tombstones:settle",
        ", *theirs]",
        "]",
        (
            "tests/unit/eno/test_tombstones.py::test_what_something_wanted_lives_in_is_held[sibling's-a "
            "namespace something lives in]"
        ),
    ),
    Guard(
        "what is wanted keeps what it lives in",
        "eno.tombstones:settle",
        "*(head.id for head in current.desired), ",
        "",
        (
            "tests/unit/eno/test_tombstones.py::test_what_something_wanted_lives_in_is_held[own-a namespace "
            "something lives in]"
        ),
    ),
    Guard(
        "what is held is not buried",
        "eno.tombstones:settle",
        "tuple(entry for entry in owed if entry.id not in held)",
        "tuple(owed)",
        "siblings/undisturbed/",
    ),
    Guard(
        "a synthesis that was never loaded needs no resynthesis",
        "eno.tombstones:unseen",
        "if not current.loaded:",
        "if False:",
        "recreated/undisturbed/",
    ),
    Guard(
        "what is buried after the loading is unseen",
        "eno.tombstones:unseen",
        "bool(debt.buried) or ",
        "",
        "loaded/undisturbed/",
    ),
    Guard(
        "what an earlier attempt buried after the loading is unseen",
        "eno.tombstones:unseen",
        " or any(entry.id in graves for entry in inventory)",
        "",
        (
            "tests/unit/eno/test_tombstones.py::test_eno_must_load_again_what_it_loaded_without_the_tombston"
            "es[buried by an earlier attempt, unseen]"
        ),
    ),
    Guard(
        "what Eno has carried out it has seen",
        "eno.tombstones:unseen",
        "current.unreconciled",
        "current.tombstones",
        (
            "tests/unit/eno/test_tombstones.py::test_eno_must_load_again_what_it_loaded_without_the_tombston"
            "es[buried and reconciled]"
        ),
    ),
    Guard(
        "tombstones that are not in the inventory ask for nothing",
        "eno.tombstones:unseen",
        "any(entry.id in graves for entry in inventory)",
        "bool(current.unreconciled)",
        (
            "tests/unit/eno/test_tombstones.py::test_eno_must_load_again_what_it_loaded_without_the_tombston"
            "es[buried by Eno, not owed]"
        ),
    ),
    Guard(
        "few resources are no mass burial",
        "eno.tombstones:mass_burial",
        "inventory_size >= MASS_BURIAL_MINIMUM and ",
        "",
        "tests/unit/eno/test_tombstones.py::test_more_than_half_of_twenty_or_more_is_a_mass_burial[19-19-False]",
    ),
    Guard(
        "half of an inventory is no mass burial",
        "eno.tombstones:mass_burial",
        "2 * len(debt.buried) > inventory_size",
        "2 * len(debt.buried) >= inventory_size",
        "tests/unit/eno/test_tombstones.py::test_more_than_half_of_twenty_or_more_is_a_mass_burial[10-20-False]",
    ),
    Guard(
        "a malformed manifest is named by its slice and index",
        "eno.tombstones:_head",
        ', where=f"resourceslice {each.title} manifest {index}"',
        "",
        "tests/unit/eno/test_tombstones.py::test_a_malformed_manifest_is_named_by_slice_and_index",
    ),
)
