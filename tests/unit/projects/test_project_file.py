"""Files of projects: what they may say, and that they come back as they were."""

from __future__ import annotations

import random
from typing import Any

import pytest
import yaml

from portal.errors import InvalidRequest
from portal.projects.elsewhere.document import (
    LONGEST,
    Contents,
    project_text,
    read_project,
)

DIGEST = f"sha256:{'a' * 64}"
WHOLE: dict[str, Any] = {
    "format": 1,
    "project": {"name": "proteins", "title": "Proteins", "largest": {"gpus": 2}},
    "people": {"owners": ["olga"], "readers": ["rita"]},
    "environments": [
        {"name": "torch", "kind": "container", "source": "docker://torch:2", "digest": DIGEST}
    ],
    "starters": [
        {
            "title": "First steps",
            "path": "notebooks/first steps.ipynb",
            "environment": "torch",
            "resources": {"gpus": 1, "memory": "8G", "time": "2:00:00"},
        }
    ],
    "runs": [
        {
            "name": "sweep",
            "source": "src/train.py",
            "environment": "torch",
            "resources": {"gpus": 1},
            "points": [{"lr": 0.1, "opt": "adam"}, {"lr": 0.01, "opt": "no", "deep": True}],
            "metrics": {"accuracy": {"lowest": 0.5, "highest": 0.75}},
            "conditions": {"script": DIGEST, "gpus": "1 of type H200", "commit": "0123abc"},
            "software": "python-3.11",
        }
    ],
    "software": {"python-3.11": {"python": "3.11.4", "packages": ["numpy==2.0", "torch==2.4"]}},
}


class Plain(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def text_of(**more: Any) -> str:
    return str(yaml.dump(WHOLE | more, Dumper=Plain, sort_keys=False))


def test_a_file_comes_back_as_it_was() -> None:
    file = read_project(text_of())
    (run,) = file.runs
    assert run.points[1] == {"lr": 0.01, "opt": "no", "deep": True}
    assert str(file.starters[0].resources.memory) == "8G"
    assert file.software_of(run).packages == ("numpy==2.0", "torch==2.4")
    text = project_text(file.project, (), file.contents)
    again = read_project(text)
    assert again.contents == file.contents and again.project == file.project
    assert project_text(again.project, (), again.contents) == text


def test_a_file_of_the_first_version_is_read_and_its_name_replaced() -> None:
    file = read_project("format: 1\nproject: {name: a, title: A}\n", name="b")
    assert file.project.name == "b" and file.contents == Contents()


def run(**more: Any) -> dict[str, Any]:
    return {"runs": [WHOLE["runs"][0] | more]}


def starter(**more: Any) -> dict[str, Any]:
    return {"starters": [WHOLE["starters"][0] | more]}


PATHS = (
    "/etc/passwd",
    "../secret.py",
    "src/../../secret.py",
    "~/train.py",
    "src//train.py",
    "./train.py",
    "src\\train.py",
    ".git/hooks/train.py",
    "a\nb.py",
    "a\x00b.py",
    "\u2028.py",
    "x" * 1001,
    f"{'d/' * 60}train.py",
    "",
)


@pytest.mark.parametrize("path", PATHS)
def test_a_path_leads_out_of_no_folder(path: str) -> None:
    for more in (run(source=path), starter(path=path)):
        with pytest.raises(InvalidRequest) as refused:
            read_project(text_of(**more))
        assert refused.value.message.startswith(("Line ", "The file is no YAML document."))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (run(source="data.csv"), "must be a notebook"),
        (run(points=[]), "runs.0.points"),
        (run(points=[{}] * 201), "runs.0.points"),
        (run(points=[{"x": [1]}]), "runs.0.points.0.x"),
        (run(points=[{"x": "y" * 201}]), "runs.0.points.0.x"),
        (run(points=[{str(n): "y" * 200 for n in range(50)}] * 10), "at most 50,000"),
        (run(metrics={"a": {"lowest": float("nan"), "highest": 1.0}}), "runs.0.metrics"),
        (run(metrics={"a": 1.0}), "runs.0.metrics.a"),
        (run(resources={"partition": "gpu"}), "'partition' is for one site only"),
        (run(resources={"gpus": "2"}), "runs.0.resources.gpus"),
        (run(software="nothing"), "names no software"),
        (run(conditions={"script": "sha256:1"}), "runs.0.conditions.script"),
        (run(conditions={"driver": "a\tb"}), "runs.0.conditions.driver"),
        (run(command="rm -rf /"), "runs.0.command"),
        ({"runs": WHOLE["runs"] * 2}, "'sweep' is twice"),
        ({"runs": [WHOLE["runs"][0] | {"name": f"r{n}"} for n in range(51)]}, "runs"),
        (starter(title='a"b'), "starters.0.title"),
        (starter(resources={"account": "physics"}), "'account' is for one site only"),
        ({"environments": [{"name": "../x", "kind": "container"}]}, "environments.0.name"),
        ({"environments": [{"name": "x", "kind": "shell"}]}, "environments.0.kind"),
        ({"environments": WHOLE["environments"] * 2}, "'torch' is twice"),
        ({"software": {"a": {"packages": ["x"] * 3001}}}, "software.a.packages"),
        ({"format": 2}, "format"),
        ({"format": True}, "format"),
        ({"files": "/"}, "files"),
    ],
)
def test_what_a_file_cannot_say_is_named(more: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_project(text_of(**more))
    assert words in refused.value.message and len(refused.value.message) < 500


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "[]",
        "project: &a {x: *a}",
        "project: !!python/object/apply:os.system [id]",
        "project: {name: a, name: b}",
        "\x00",
        "{" * 200,
        "project: '\ud800'",
        "? [a]\n: b",
        f"project: {{description: {'x' * LONGEST}}}",
    ],
)
def test_what_is_no_document_is_refused_in_words(text: str) -> None:
    with pytest.raises(InvalidRequest):
        read_project(text)


def test_texts_of_chance_are_read_or_refused() -> None:
    """A letter that is changed, removed or doubled: no other error than a refusal."""
    chance, text = random.Random(5), text_of()
    outcomes = set()
    for _ in range(150):
        at, letter = chance.randrange(len(text)), chance.choice("\"'{}[]:&*!|>%@`#,-\t\n\x00é0")
        changed = text[:at] + letter * chance.randrange(3) + text[at + chance.randrange(2) :]
        try:
            read_project(changed)
            outcomes.add("read")
        except InvalidRequest:
            outcomes.add("refused")
    assert outcomes == {"read", "refused"}
