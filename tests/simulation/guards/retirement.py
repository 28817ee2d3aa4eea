"""Guards of retire: which inventories nobody claims."""

from __future__ import annotations

from tests.simulation.mutation import Guard

GUARDS: tuple[Guard, ...] = (
    Guard(
        "a mark that is no time begins the grace anew",
        "eno.retirement:Holding.of",
        "since = None",
        'since = parse_time("1970-01-01T00:00:00Z")',
        "retired/undisturbed/",
    ),
    Guard(
        "retire leaves lineages of other namespaces alone",
        "eno.retirement:groups",
        "if not any(each.namespace == namespace for each in holdings):",
        "if False:",
        (
            "tests/unit/eno/test_retirement.py::test_only_what_is_provably_of_the_namespace_is_looked"
            "_at[of another namespace]"
        ),
    ),
    Guard(
        "what is terminating is not retired again",
        "eno.retirement:groups",
        "if not each.stored.terminating",
        "if True",
        "tests/unit/eno/test_retirement.py::test_only_what_is_provably_of_the_namespace_is_looked_at[terminating]",
    ),
    Guard(
        "the newest snapshot of a name is retired last",
        "eno.retirement:groups",
        "(item[0].composition, item[0].synthesized,",
        "(item[0].composition,",
        "tests/unit/eno/test_retirement.py::test_secrets_are_grouped_by_name_oldest_first",
    ),
    Guard(
        "the Secrets of one name share one fate",
        "eno.retirement:groups",
        "named = groupby(sound, key=lambda item: item[0].composition)",
        "named = groupby(sound, key=lambda item: (item[0].composition, item[0].synthesis_uuid, item[1]))",
        "tests/unit/eno/test_retirement.py::test_secrets_are_grouped_by_name_oldest_first",
    ),
    Guard(
        "an unusable Secret is retired as well",
        "eno.retirement:groups",
        "if isinstance(each.stored, UnusableChunk)]",
        "if False]",
        "tests/unit/eno/test_retirement.py::test_secrets_are_grouped_by_name_oldest_first",
    ),
    Guard(
        "only compositions of the lineage claim it",
        "eno.retirement:Claims.of",
        " if lineage(each.namespace, each.synthesizer) == lineage_id",
        "",
        "tests/unit/eno/test_retirement.py::test_who_claims_a_snapshot[its name, another synthesizer]",
    ),
    Guard(
        "who is still to be recovered claims the whole lineage",
        "eno.retirement:Claims.of",
        'next(unrecovered, "")',
        '""',
        "tests/unit/eno/test_retirement.py::test_who_claims_a_snapshot[renamed, not yet recovered]",
    ),
    Guard(
        "an unrecovered claim holds for every group",
        "eno.retirement:Claims.of_group",
        "if self.everything:",
        "if False:",
        "tests/unit/eno/test_retirement.py::test_who_claims_a_snapshot[renamed, not yet recovered]",
    ),
    Guard(
        "a composition claims the snapshots of its name",
        "eno.retirement:Claims.of_group",
        "group.composition in self.names or ",
        "",
        "adoption/undisturbed/",
    ),
    Guard(
        "a Secret that does not say whose it is may be anybody's",
        "eno.retirement:Claims.of_group",
        " or (self.names and not group.composition)",
        "",
        (
            "tests/unit/eno/test_retirement.py::test_a_secret_that_does_not_say_whose_it_is_is_claime"
            "d_by_anybody_of_the_lineage"
        ),
    ),
    Guard(
        "an opted-in composition claims its inventory",
        "eno.retirement:claims_its_own",
        "composition.opted_in or ",
        "",
        "adoption/undisturbed/",
    ),
    Guard(
        "a deletion claims its inventory to the end",
        "eno.retirement:claims_its_own",
        " or composition.deleting",
        "",
        "tests/unit/eno/test_retirement.py::test_who_claims_a_snapshot[deleting, and opted out]",
    ),
    Guard(
        "only who is opted in or going claims its inventory",
        "eno.retirement:claims_its_own",
        "composition.opted_in or composition.deleting",
        "True",
        "tests/unit/eno/test_retirement.py::test_who_claims_a_snapshot[opted out]",
    ),
    Guard(
        "a composition without a synthesis is going to lack history",
        "eno.retirement:is_unrecovered",
        "return composition.opted_in and not composition.deleting",
        "return False",
        "tests/unit/eno/test_retirement.py::test_who_claims_a_snapshot[renamed, not yet synthesized]",
    ),
    Guard(
        "an opted-out composition without a synthesis claims nothing",
        "eno.retirement:is_unrecovered",
        "return composition.opted_in and not composition.deleting",
        "return not composition.deleting",
        "tests/unit/eno/test_retirement.py::test_who_claims_a_snapshot[renamed, not synthesized, opted out]",
    ),
    Guard(
        "a deletion without a synthesis claims only its own",
        "eno.retirement:is_unrecovered",
        "return composition.opted_in and not composition.deleting",
        "return composition.opted_in",
        "tests/unit/eno/test_retirement.py::test_who_claims_a_snapshot[renamed, deleted before its first synthesis]",
    ),
    Guard(
        "a finished recovery claims no history",
        "eno.retirement:is_unrecovered",
        " and not finished(composition.current)",
        "",
        "tests/unit/eno/test_retirement.py::test_who_claims_a_snapshot[the composition itself]",
    ),
    Guard(
        "only a required recovery claims history",
        "eno.retirement:is_unrecovered",
        "recovery_required(composition, infer=infer) and ",
        "",
        "tests/unit/eno/test_retirement.py::test_who_claims_a_snapshot[another name, that lacks no history]",
    ),
    Guard(
        "whether absent fields claim is the setting",
        "eno.retirement:is_unrecovered",
        "infer=infer",
        "infer=False",
        "tests/unit/eno/test_retirement.py::test_whether_absent_fields_claim_is_the_setting[True]",
    ),
    Guard(
        "what is claimed is not retired",
        "eno.retirement:steps",
        "if claim is not None:",
        "if False:",
        "adoption/undisturbed/",
    ),
    Guard(
        "what is claimed again loses its mark",
        "eno.retirement:steps",
        "unmark=tuple(each for each in group.holdings if each.marked)",
        "unmark=()",
        "tests/unit/eno/test_retirement.py::test_a_claim_takes_every_mark_away_and_nothing_else",
    ),
    Guard(
        "only a mark is taken away",
        "eno.retirement:steps",
        " if each.marked)",
        ")",
        "tests/unit/eno/test_retirement.py::test_a_claim_takes_every_mark_away_and_nothing_else",
    ),
    Guard(
        "a grace of 0 keeps everything",
        "eno.retirement:steps",
        "if not grace:",
        "if False:",
        "tests/unit/eno/test_retirement.py::test_a_grace_of_0_keeps_everything[None]",
    ),
    Guard(
        "what is unclaimed is marked before it goes",
        "eno.retirement:steps",
        (
            "    if unmarked:\n"
            '        return Steps("unclaimed since now", mark=unmarked, until=now + grace)\n'
            "    due = max(each.since for each in group.holdings if each.since is not None) + grace"
        ),
        (
            "    due = max((each.since for each in group.holdings if each.since is not None), "
            "default=now - grace) + grace"
        ),
        "retired/undisturbed/",
    ),
    Guard(
        "only what is not marked is marked",
        "eno.retirement:steps",
        "if each.since is None)",
        ")",
        "retired/undisturbed/",
    ),
    Guard(
        "what is unclaimed goes after the grace of its youngest mark",
        "eno.retirement:steps",
        "max(each.since",
        "min(each.since",
        "tests/unit/eno/test_retirement.py::test_what_becomes_of_an_unclaimed_snapshot[the latest mark counts]",
    ),
    Guard(
        "what is unclaimed stays within the grace",
        "eno.retirement:steps",
        "if now < due:",
        "if False:",
        "retired/undisturbed/",
    ),
    Guard(
        "a grace that begins is looked at again",
        "eno.retirement:steps",
        "until=now + grace",
        "until=None",
        "tests/unit/eno/test_retirement.py::test_what_becomes_of_an_unclaimed_snapshot[unmarked]",
    ),
    Guard(
        "a grace that goes on is looked at again",
        "eno.retirement:steps",
        "until=due",
        "until=None",
        "retired/undisturbed/",
    ),
)
