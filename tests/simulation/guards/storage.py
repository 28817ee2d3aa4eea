"""Guards of stored inventories: whose a Secret is, and whether what it says can be trusted."""

from __future__ import annotations

from tests.simulation.mutation import Guard

GUARDS: tuple[Guard, ...] = (
    Guard(
        "a payload without its key is unusable",
        "eno.inventory.secrets:StoredChunk.payload",
        'raise self.defect(f"data key {PAYLOAD_KEY} is missing")',
        'return b"[]"',
        "tests/unit/eno/test_selection.py::test_an_unusable_payload_names_the_secret_and_the_defect[no data]",
    ),
    Guard(
        "a payload that is not base64 is unusable",
        "eno.inventory.secrets:StoredChunk.payload",
        'raise self.defect(f"data key {PAYLOAD_KEY} is not base64") from error',
        'return b"[]"',
        "tests/unit/eno/test_selection.py::test_an_unusable_payload_names_the_secret_and_the_defect[not base64]",
    ),
    Guard(
        "a payload with a foreign character is unusable",
        "eno.inventory.secrets:StoredChunk.payload",
        "validate=True",
        "validate=False",
        "tests/unit/eno/test_selection.py::test_an_unusable_payload_names_the_secret_and_the_defect[not base64]",
    ),
    Guard(
        "a payload that is not what was hashed is unusable",
        "eno.inventory.secrets:StoredChunk.payload",
        "if self.digest and sha256(payload).hexdigest() != self.digest:",
        "if False:",
        "tests/unit/eno/test_selection.py::test_a_payload_that_was_altered_does_not_match_its_digest",
    ),
    Guard(
        "a payload without a digest is read",
        "eno.inventory.secrets:StoredChunk.payload",
        "if self.digest and sha256",
        "if sha256",
        "tests/unit/eno/test_selection.py::test_an_unusable_payload_names_the_secret_and_the_defect[empty]",
    ),
    Guard(
        "an unusable Secret belongs to whom its name allows",
        "eno.inventory.secrets:UnusableChunk.may_belong_to",
        "self.name == fit_name(composition, self.suffix) and ",
        "",
        "tests/unit/eno/test_replacement.py::test_what_a_snapshot_replaces[another's that does not say whose it is]",
    ),
    Guard(
        "an unusable Secret belongs to whom its annotation names",
        "eno.inventory.secrets:UnusableChunk.may_belong_to",
        ' and self.composition in ("", composition)',
        "",
        (
            "tests/unit/eno/test_replacement.py::test_what_a_snapshot_replaces[one that names "
            "another source than its name]"
        ),
    ),
    Guard(
        "an unusable Secret without a name may be anybody's of that name",
        "eno.inventory.secrets:UnusableChunk.may_belong_to",
        '("", composition)',
        "(composition,)",
        "tests/unit/workers/test_record.py::test_a_secret_without_usable_metadata_is_replaced_with_its_name",
    ),
    Guard(
        "a lineage is of a namespace and a synthesizer",
        "eno.inventory.secrets:lineage",
        'f"{namespace}/{synthesizer}"',
        "synthesizer",
        (
            "tests/unit/eno/test_inventory.py::test_unusable_metadata_is_named_with_its_secret[compos"
            "ition-namespace-other-lineage and source names disagree]"
        ),
    ),
    Guard(
        "a snapshot has names of its own",
        "eno.inventory.secrets:secret_name",
        "{_uuid_digest(synthesis_uuid)}",
        "0000000000000000",
        "first/undisturbed/",
    ),
    Guard(
        "each chunk has a name of its own",
        "eno.inventory.secrets:secret_name",
        "-{index}-",
        "-0-",
        "first/undisturbed/",
    ),
    Guard(
        "a time is stored in whole seconds",
        "eno.inventory.secrets:source_of",
        ".replace(microsecond=0)",
        "",
        "tests/unit/eno/test_inventory.py::test_a_synthesis_with_a_fraction_of_a_second_is_found_again",
    ),
    Guard(
        "a stored snapshot is immutable",
        "eno.inventory.secrets:snapshot",
        '"immutable": True',
        '"immutable": False',
        "first/undisturbed/",
    ),
    Guard(
        "a stored snapshot carries its hash",
        "eno.inventory.secrets:snapshot",
        ", _SHA256: sha256(payload).hexdigest()}",
        "}",
        "tests/unit/eno/test_inventory.py::test_a_snapshot_is_immutable_opaque_and_described",
    ),
    Guard(
        "only an Opaque Secret is ours",
        "eno.inventory.secrets:read",
        '_shape(metadata) if secret.get("type") == "Opaque" else None',
        "_shape(metadata)",
        "tests/unit/eno/test_inventory.py::test_a_secret_that_merely_carries_the_label_is_not_ours[another type]",
    ),
    Guard(
        "a Secret that merely carries the label is not ours",
        "eno.inventory.secrets:read",
        ("    if shape is None:\n        return None"),
        ("    if shape is None:\n        shape = _Shape('', 0, '')"),
        "tests/unit/eno/test_inventory.py::test_a_secret_that_merely_carries_the_label_is_not_ours[another type]",
    ),
    Guard(
        "metadata that disagrees makes a Secret unusable",
        "eno.inventory.secrets:read",
        "        _check_metadata(metadata, shape, source, index, count)\n",
        "",
        (
            "tests/unit/eno/test_inventory.py::test_unusable_metadata_is_named_with_its_secret[chunk-"
            "index-1-chunk 1 of 1 does not fit its name]"
        ),
    ),
    Guard(
        "a terminating chunk is told",
        "eno.inventory.secrets:read",
        (
            "        resource_version=metadata.resource_version,\n"
            "        terminating=metadata.deletion_timestamp is not None,\n"
            "        source"
        ),
        ("        resource_version=metadata.resource_version,\n        terminating=False,\n        source"),
        "tests/unit/eno/test_selection.py::test_a_terminating_chunk_makes_a_snapshot_incomplete",
    ),
    Guard(
        "a terminating unusable Secret is told",
        "eno.inventory.secrets:read",
        ("            terminating=metadata.deletion_timestamp is not None,\n            defect"),
        ("            terminating=False,\n            defect"),
        "tests/unit/eno/test_replacement.py::test_what_a_snapshot_replaces[a broken one that goes by itself]",
    ),
    Guard(
        "a chunk that has an owner is not ours",
        "eno.inventory.secrets:difference",
        "if found.owner_references:",
        "if False:",
        (
            "tests/unit/workers/test_record.py::test_something_else_that_has_the_name_is_neither_over"
            "written_nor_deleted[an owner]"
        ),
    ),
    Guard(
        "a chunk that is not immutable is not ours",
        "eno.inventory.secrets:difference",
        'if stored.get("immutable") is not True:',
        "if False:",
        (
            "tests/unit/workers/test_record.py::test_something_else_that_has_the_name_is_neither_over"
            "written_nor_deleted[not immutable]"
        ),
    ),
    Guard(
        "a chunk of another type is not ours",
        "eno.inventory.secrets:difference",
        'if stored.get("type") != intended["type"]:',
        "if False:",
        (
            "tests/unit/workers/test_record.py::test_something_else_that_has_the_name_is_neither_over"
            "written_nor_deleted[type]"
        ),
    ),
    Guard(
        "a chunk with another label is not ours",
        "eno.inventory.secrets:difference",
        '("label", wanted.labels, found.labels),',
        "",
        (
            "tests/unit/workers/test_record.py::test_something_else_that_has_the_name_is_neither_over"
            "written_nor_deleted[label]"
        ),
    ),
    Guard(
        "a chunk with another annotation is not ours",
        "eno.inventory.secrets:difference",
        '("annotation", wanted.annotations, found.annotations),',
        "",
        "tests/unit/workers/test_record.py::test_a_complete_snapshot_that_lists_something_else_replaces_nothing",
    ),
    Guard(
        "a chunk with another payload is not ours",
        "eno.inventory.secrets:difference",
        'None if stored.get("data") == intended["data"] else "its payload differs"',
        "None",
        (
            "tests/unit/workers/test_record.py::test_something_else_that_has_the_name_is_neither_over"
            "written_nor_deleted[payload]"
        ),
    ),
    Guard(
        "foreign labels make no difference",
        "eno.inventory.secrets:difference",
        ("for key, value in ours.items():\n            if theirs.get(key) != value:"),
        (
            "for key, value in {**ours, **theirs}.items():\n"
            "            if ours.get(key) != value or theirs.get(key) != value:"
        ),
        (
            "tests/unit/workers/test_record.py::test_an_equal_secret_that_stands_there_already_is_tak"
            "en_for_the_chunk[with a finalizer]"
        ),
    ),
    Guard(
        "a name of another lineage is not ours",
        "eno.inventory.secrets:_shape",
        ' if prefix not in ("", found["head"]) else None',
        " if prefix else None",
        (
            "tests/unit/eno/test_inventory.py::test_a_secret_that_merely_carries_the_label_is_not_our"
            "s[the name of another lineage]"
        ),
    ),
    Guard(
        "a name needs more than a lineage",
        "eno.inventory.secrets:_shape",
        'prefix not in ("", found["head"])',
        'prefix != found["head"]',
        "tests/unit/eno/test_inventory.py::test_a_secret_that_merely_carries_the_label_is_not_ours[no composition]",
    ),
    Guard(
        "another format makes a Secret unusable",
        "eno.inventory.secrets:_source",
        "if notes.get(_FORMAT) != FORMAT_VERSION:",
        "if False:",
        (
            "tests/unit/eno/test_inventory.py::test_unusable_metadata_is_named_with_its_secret[format"
            "-version-2-format version '2' is not '1']"
        ),
    ),
    Guard(
        "a Secret without its source's name is unusable",
        "eno.inventory.secrets:_source",
        "composition=_text(notes, _COMPOSITION)",
        'composition=notes.get(_COMPOSITION, "")',
        (
            "tests/unit/eno/test_inventory.py::test_unusable_metadata_is_named_with_its_secret[compos"
            "ition-name-None-composition-name is missing]"
        ),
    ),
    Guard(
        "a Secret without a synthesis UUID is unusable",
        "eno.inventory.secrets:_source",
        "synthesis_uuid=_text(notes, _UUID)",
        'synthesis_uuid=notes.get(_UUID, "")',
        (
            "tests/unit/eno/test_inventory.py::test_unusable_metadata_is_named_with_its_secret[synthe"
            "sis-uuid-None-synthesis-uuid is missing]"
        ),
    ),
    Guard(
        "the lineage annotation must agree with the label",
        "eno.inventory.secrets:_check_metadata",
        "metadata.annotations.get(LINEAGE_KEY) != lineage_id or ",
        "",
        (
            "tests/unit/eno/test_inventory.py::test_unusable_metadata_is_named_with_its_secret[lineag"
            "e-None-lineage and source names disagree]"
        ),
    ),
    Guard(
        "the lineage must be that of the source",
        "eno.inventory.secrets:_check_metadata",
        (" or lineage_id != lineage(\n        source.namespace, source.synthesizer\n    )"),
        "",
        (
            "tests/unit/eno/test_inventory.py::test_unusable_metadata_is_named_with_its_secret[compos"
            "ition-namespace-other-lineage and source names disagree]"
        ),
    ),
    Guard(
        "a chunk's index must be that of its name",
        "eno.inventory.secrets:_check_metadata",
        "index != shape.index or ",
        "",
        "tests/unit/eno/test_inventory.py::test_an_index_within_the_count_must_be_that_of_the_name",
    ),
    Guard(
        "a chunk's index must be within the count",
        "eno.inventory.secrets:_check_metadata",
        " or index >= count",
        "",
        (
            "tests/unit/eno/test_inventory.py::test_unusable_metadata_is_named_with_its_secret[chunk-"
            "count-0-chunk 0 of 0 does not fit its name]"
        ),
    ),
    Guard(
        "a chunk's source must be that of its name",
        "eno.inventory.secrets:_check_metadata",
        "if metadata.name != fit_name(source.composition, suffix):",
        "if False:",
        (
            "tests/unit/eno/test_inventory.py::test_unusable_metadata_is_named_with_its_secret[compos"
            "ition-name-other-composition name 'other' does not match the Secret's name]"
        ),
    ),
    Guard(
        "a chunk's synthesis must be that of its name",
        "eno.inventory.secrets:_check_metadata",
        "if shape.digest and shape.digest != _uuid_digest(source.synthesis_uuid):",
        "if False:",
        (
            "tests/unit/eno/test_inventory.py::test_unusable_metadata_is_named_with_its_secret[synthe"
            "sis-uuid-other-the synthesis UUID does not match the Secret's name]"
        ),
    ),
    Guard(
        "a draft's name needs no digest",
        "eno.inventory.secrets:_check_metadata",
        "if shape.digest and shape.digest",
        "if shape.digest",
        "tests/unit/eno/test_replacement.py::test_what_a_recovery_would_not_choose_is_not_complete[twice]",
    ),
    Guard(
        "an unusable Secret proves its namespace by its lineage",
        "eno.inventory.secrets:_proven_namespace",
        'return namespace if proven else ""',
        "return namespace",
        (
            "tests/unit/eno/test_retirement.py::test_only_what_is_provably_of_the_namespace_is_looked"
            "_at[unusable, its synthesizer is unknown]"
        ),
    ),
    Guard(
        "an annotation that is missing makes a Secret unusable",
        "eno.inventory.secrets:_text",
        "if not value:",
        "if False:",
        (
            "tests/unit/eno/test_inventory.py::test_unusable_metadata_is_named_with_its_secret[synthe"
            "sized-None-synthesized is missing]"
        ),
    ),
    Guard(
        "a number that is none makes a Secret unusable",
        "eno.inventory.secrets:_number",
        ("if not _DECIMAL.fullmatch(value):\n        raise"),
        ("if not value.strip().lstrip('+-').isdigit():\n        raise"),
        (
            "tests/unit/eno/test_inventory.py::test_unusable_metadata_is_named_with_its_secret[chunk-"
            "index--1-chunk-index is not a number]"
        ),
    ),
)
