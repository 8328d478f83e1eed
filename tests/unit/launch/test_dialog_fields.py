"""Fields of the dialogs of runs: all of the table, with what the person can choose."""

from __future__ import annotations

from run_fields import run_fields

from portal.launch.choices.dialog_fields import DialogField
from portal.launch.fields import FIELDS


def shown(**inherited: str) -> dict[str, DialogField]:
    return {field.name: field for field in run_fields(inherited)}


def test_every_field_of_the_table_folds_as_on_the_launch_page() -> None:
    fields = run_fields()
    assert [(field.name, field.folded) for field in fields] == [
        (field.name, field.folded) for field in FIELDS
    ]


def test_the_choices_are_those_of_the_launch_page() -> None:
    fields = shown()
    assert fields["partition"].values == ("cpu", "gpu")
    assert fields["partition"].labels["gpu"].startswith("gpu: 4 of 4 GPUs free, ")
    assert fields["partition"].unset == "Automatic"
    assert fields["account"].values == ("biology", "physics")
    assert (fields["account"].labels, fields["account"].unset) == ({}, "Default (physics)")
    assert fields["qos"].values == ("long", "normal")
    assert fields["reservation"].values == ("ada-only",)
    assert fields["reservation"].labels["ada-only"].startswith("ada-only (until ")
    assert fields["constraint"].values == ("nvlink",)
    assert fields["memory"].values is None and fields["nodes"].values is None
    assert (fields["gpus"].least, fields["nodes"].least, fields["nodes"].number) == (0, 1, True)


def test_what_is_no_choice_has_no_values() -> None:
    fields = {field.name: field for field in run_fields(rows=None)}
    assert fields["account"].values == fields["qos"].values == ()


def test_an_account_of_the_session_is_what_a_run_has_without_a_choice() -> None:
    fields = shown(account="physics")
    assert fields["account"].unset == "The session's (physics)"
    assert "physics" in (fields["account"].values or ()), "it can be chosen by its name too"
    assert fields["qos"].unset == "Default"
