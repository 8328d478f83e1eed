"""Rosters as people paste and upload them."""

from __future__ import annotations

import time

import pytest

from portal.courses.roster import roster
from portal.errors import InvalidRequest


@pytest.mark.parametrize(
    "text",
    [
        "ada\ngrace\nalan\n",
        "\ufeffada\r\ngrace\r\nalan",
        "ada, grace; alan".replace(";", ","),
        "ada;grace;alan",
        "ada grace alan",
        "ada\tgrace\talan",
        "ada,\ngrace,\nalan",
        "\n\n  ada\n\ngrace  \nalan\n\n",
        "username\nada\ngrace\nalan",
        "Name;User name;E-Mail\nLovelace;ada;a@x.org\nHopper;grace;g@x.org\nTuring;alan;\n",
        '"Full name","UserID"\n"Lovelace, Ada","ada"\n"Hopper\nGrace","grace"\n"T","Alan"\n',
        "\ufeffVorname\tBenutzername\r\nAda\tada\r\nGrace\tgrace\r\nAlan\talan\r\n",
    ],
)
def test_lists_and_tables(text: str) -> None:
    found = roster.read(text)
    assert found.names == ("ada", "grace", "alan")
    assert found.problems == ()


def test_one_name_is_no_head() -> None:
    assert roster.read("student02").names == ("student02",)
    assert roster.read("student02\nuser-3\n").names == ("student02", "user-3")


def test_duplicates_are_told_once() -> None:
    found = roster.read("ada\nADA\ngrace\nada\n")
    assert found.names == ("ada", "grace")
    assert found.twice == ("ada",)


def test_formulas_and_real_names_are_no_user_names() -> None:
    text = "ada\n=cmd|'/C calc'!A0\n@SUM(1)\nAda Lovelace\n-2+3\ngrace\n"
    found = roster.read(text)
    assert found.names == ("ada", "grace")
    assert [one.line for one in found.problems] == [2, 3, 4, 5]
    assert "'Ada Lovelace' is not a user name" in found.problems[2].message


def test_a_table_without_a_head_gives_its_first_column_and_says_so() -> None:
    found = roster.read("ada;lovelace\ngrace;hopper\n")
    assert found.names == ("ada", "grace")
    assert "first column" in found.problems[0].message


def test_a_head_without_user_names_and_lines_without_one() -> None:
    found = roster.read("first name,last name\nada,lovelace\n")
    assert found.names == ()
    assert "username" in found.problems[0].message
    found = roster.read("last name,login\nLovelace,ada\nHopper,\nTuring\n")
    assert found.names == ("ada",)
    assert [one.line for one in found.problems] == [3, 4]


def test_nothing_and_rubbish() -> None:
    assert roster.read("") == ((), (), ())
    assert roster.read("\ufeff\n \n") == ((), (), ())
    assert (
        roster.read('"' + "x" * 200_000)
        .problems[0]
        .message.startswith("The text is not a valid table")
    )
    many = roster.read("\n".join(f"={n}" for n in range(1000)))
    assert len(many.problems) == 51
    assert many.problems[-1].message == "And 950 more such lines."
    with pytest.raises(InvalidRequest):
        roster.read("\n" * 20_001)
    assert roster.read("\0\nada").names == ("ada",)


def test_five_thousand_lines_are_quick() -> None:
    text = "name,username,mail\n" + "".join(
        f"Student {n},student{n},s{n}@x.org\n" for n in range(5000)
    )
    began = time.process_time()
    found = roster.read(text)
    assert time.process_time() - began < 0.5
    assert len(found.names) == 5000
    assert found.problems == ()
