"""A benchmark's figure, from the cell of a session that shows it to the pages of the catalog."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import httpx
from cells import run_cell
from hub_client import Person, wait_until
from portal_session.measurements.measurements import MIME

ENVIRONMENT = "python-venv"
# The first figure is of more GPUs than the session has; they are told in this order.
SHOW = """
from IPython.display import display
for gpus, figure in ((64, 99999.0), (1, 812.5), (1, 1212.5)):
    found = {{"benchmark": "{name}", "precision": "fp16", "gpus": gpus}}
    display({{"{mime}": {{**found, "images_per_second": figure}}, "text/plain": "…"}}, raw=True)
"""


def test_what_a_cell_shows_is_in_the_catalog(
    demo: Any, ada: Person, person: Callable[[str], Person]
) -> None:
    name = f"test-{uuid.uuid4().hex[:8]}"
    ada.launch({"environment": ENVIRONMENT, "gpus": 1})
    ada.wait_ready()
    run_cell(ada, SHOW.format(name=name, mime=MIME))
    barbara = person("barbara")  # everyone sees what was measured, and not by whom
    barbara.api("GET", "/user")

    def rows() -> list[dict[str, Any]]:
        answer = httpx.get(
            f"{demo.url}/services/portal/api/v1/environments/{ENVIRONMENT}/measurements",
            headers={"Authorization": f"token {barbara.token}"},
            timeout=60,
        )
        assert answer.status_code == 200, answer.text
        return [one for one in answer.json()["items"] if one["benchmark"] == name]

    (row,) = wait_until("both runs are known", lambda: (r := rows()) and r[0]["runs"] == 2 and r)
    assert (row["images_per_second"], row["best"]) == (1012.5, 1212.5)
    assert (row["precision"], row["gpus"]) == ("fp16", 1)
    assert row["gpu_type"], "the type that Slurm gave to the job"
    assert row["simulated"] == demo.words["simulated_gpus"]
    assert "ada" not in str(row)

    page = barbara.page(f"/services/portal/catalog/{ENVIRONMENT}")
    simulated = " simulated" if row["simulated"] else ""
    assert f"{name} 1 \u00d7 {row['gpu_type']}{simulated} fp16 1,012.5 1,212.5 2 " in page, page
