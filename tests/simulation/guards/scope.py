"""Guards of scope: what lies outside of namespace, selector and switches is left alone."""

from __future__ import annotations

from tests.simulation.mutation import Guard

GUARDS: tuple[Guard, ...] = (
    Guard(
        "only the watched namespace is in scope",
        "eno.scope:Scope.outside_watch",
        "if self.composition_namespace and composition.namespace != self.composition_namespace:",
        "if False:",
        (
            "tests/unit/eno/test_selectors.py::test_a_composition_is_in_scope_when_namespace_labels_a"
            "nd_switches_agree[another namespace is watched]"
        ),
    ),
    Guard(
        "only what the selector selects is in scope",
        "eno.scope:Scope.outside_watch",
        "if not LabelSelector.parse(self.label_selector).matches(composition.labels):",
        "if False:",
        (
            "tests/unit/eno/test_selectors.py::test_a_composition_is_in_scope_when_namespace_labels_a"
            "nd_switches_agree[labels do not match]"
        ),
    ),
    Guard(
        "readiness is derived for the opted-in by default",
        "eno.scope:Scope.aggregates",
        " and opted_in",
        "",
        "tests/unit/workers/test_gate.py::test_the_setting_says_whose_readiness_is_aggregated[opted-in-False-False]",
    ),
    Guard(
        "readiness is derived for all where the setting says so",
        "eno.scope:Scope.aggregates",
        "self.aggregation is Aggregation.ALL or ",
        "",
        "tests/unit/workers/test_gate.py::test_the_setting_says_whose_readiness_is_aggregated[all-True-True]",
    ),
    Guard(
        "readiness is not derived where it is off",
        "eno.scope:Scope.aggregates",
        "self.aggregation is Aggregation.OPTED_IN and opted_in",
        "opted_in",
        "tests/unit/workers/test_gate.py::test_the_setting_says_whose_readiness_is_aggregated[off-True-False]",
    ),
    Guard(
        "nothing is retired while recovery is disabled",
        "eno.scope:Scope.recovers_in",
        "self.recovery_enabled and ",
        "",
        "tests/unit/workers/test_retire.py::test_a_message_about_something_out_of_scope_changes_nothing[disabled]",
    ),
    Guard(
        "nothing is retired outside the watched namespace",
        "eno.scope:Scope.recovers_in",
        "watched and ",
        "",
        "tests/unit/workers/test_retire.py::test_a_message_about_something_out_of_scope_changes_nothing[not watched]",
    ),
    Guard(
        "nothing is retired outside the recovery namespace",
        "eno.scope:Scope.recovers_in",
        " and namespace == self.recovery_namespace",
        "",
        (
            "tests/unit/workers/test_retire.py::test_a_message_about_something_out_of_scope_changes_n"
            "othing[not the recovery namespace]"
        ),
    ),
    Guard(
        "nothing is recovered while recovery is disabled",
        "eno.scope:Scope.outside_recovery",
        "if not self.recovery_enabled:",
        "if False:",
        (
            "tests/unit/eno/test_selectors.py::test_a_composition_is_in_scope_when_namespace_labels_a"
            "nd_switches_agree[recovery is disabled]"
        ),
    ),
    Guard(
        "nothing is recovered outside the recovery namespace",
        "eno.scope:Scope.outside_recovery",
        "if composition.namespace != self.recovery_namespace:",
        "if False:",
        (
            "tests/unit/eno/test_selectors.py::test_a_composition_is_in_scope_when_namespace_labels_a"
            "nd_switches_agree[not to be recovered]"
        ),
    ),
    Guard(
        "nothing is recovered outside the watch scope",
        "eno.scope:Scope.outside_recovery",
        "return self.outside_watch(composition)",
        "return None",
        (
            "tests/unit/eno/test_selectors.py::test_a_composition_is_in_scope_when_namespace_labels_a"
            "nd_switches_agree[another namespace is watched]"
        ),
    ),
    Guard(
        "every requirement of a selector must match",
        "eno.selectors:LabelSelector.matches",
        "all(",
        "any(",
        "tests/unit/eno/test_selectors.py::test_a_selector_matches_as_in_kubernetes[-labels0-True]",
    ),
    Guard(
        "a requirement that a label exists is kept",
        "eno.selectors:Requirement.matches",
        "return self.key in labels",
        "return True",
        "tests/unit/eno/test_selectors.py::test_a_selector_matches_as_in_kubernetes[a-labels13-False]",
    ),
    Guard(
        "a requirement that a label is absent is kept",
        "eno.selectors:Requirement.matches",
        ("case Operator.MISSING:\n                return self.key not in labels"),
        ("case Operator.MISSING:\n                return True"),
        "tests/unit/eno/test_selectors.py::test_a_selector_matches_as_in_kubernetes[!a-labels15-False]",
    ),
    Guard(
        "a missing label is not in a set",
        "eno.selectors:Requirement.matches",
        "labels.get(self.key) in self.values",
        "labels.get(self.key, next(iter(self.values))) in self.values",
        "tests/unit/eno/test_selectors.py::test_a_selector_matches_as_in_kubernetes[a=b-labels6-False]",
    ),
    Guard(
        "a missing label meets notin",
        "eno.selectors:Requirement.matches",
        "labels.get(self.key) not in self.values",
        "self.key in labels and labels[self.key] not in self.values",
        "tests/unit/eno/test_selectors.py::test_a_selector_matches_as_in_kubernetes[a!=b-labels10-True]",
    ),
    Guard(
        "what is no selector is refused",
        "eno.selectors:_requirement",
        "    raise _refused(part, text)",
        "    return Requirement(part, Operator.EXISTS)",
        "tests/unit/eno/test_selectors.py::test_a_selector_that_cannot_be_parsed_is_refused_in_one_line[=]",
    ),
    Guard(
        "a key that no label can have is refused",
        "eno.selectors:_checked",
        "if not _KEY.fullmatch(requirement.key):",
        "if False:",
        "tests/unit/eno/test_selectors.py::test_a_selector_that_cannot_be_parsed_is_refused_in_one_line[-a]",
    ),
    Guard(
        "a value that no label can have is refused",
        "eno.selectors:_checked",
        "if not _VALUE.fullmatch(value):",
        "if False:",
        "tests/unit/eno/test_selectors.py::test_a_selector_that_cannot_be_parsed_is_refused_in_one_line[a=-b]",
    ),
    Guard(
        "a comma inside parentheses separates values",
        "eno.selectors:LabelSelector.parse",
        "_COMMA_OUTSIDE_PARENTHESES.split(text)",
        "text.split(',')",
        "tests/unit/eno/test_selectors.py::test_a_selector_matches_as_in_kubernetes[a in (b,c)-labels16-True]",
    ),
    Guard(
        "a selector of nothing selects everything",
        "eno.selectors:LabelSelector.parse",
        "if not text.strip():",
        "if False:",
        "tests/unit/eno/test_selectors.py::test_a_selector_matches_as_in_kubernetes[-labels0-True]",
    ),
)
