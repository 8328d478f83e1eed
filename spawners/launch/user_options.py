"""Entry point for a session's options, whether from the page, a link or the REST API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from traitlets import Instance, default

from portal.errors import PortalError
from portal.launch.request import LaunchRequest, options_from_form
from portal.logs import tracing

from ..hub_setup import ensure_set_up, is_set_up
from ..session import SessionSpawner
from .launch import launch_request, render_form
from .other_launches import forget_ended
from .refusals import refusal


class UserOptions(SessionSpawner):
    """Spawner that turns options into a launch request, or refuses them with a sentence."""

    _request = Instance(LaunchRequest, allow_none=True)

    @classmethod
    def hub_is_set_up(cls) -> bool:
        """Return True if the Hub's configuration calls ``set_up_hub``; else no session starts."""
        return is_set_up()

    @default("options_form")
    def _options_form_default(self) -> Any:
        return render_form

    async def launch_form(self, server: str, linked: Mapping[str, Any], problem: str) -> str:
        """Return the launch form of ``server``, this one or another of its owner, filled in with
        the options of a link. ``problem``: why it cannot start, "" if it can."""
        return await render_form(self, server, linked, problem)

    def options_from_form(self, formdata: dict[str, list[str]]) -> dict[str, Any]:
        """Return the form's fields as plain ``user_options``; the launch refuses wrong values."""
        try:
            return options_from_form(formdata)
        except PortalError as error:
            raise refusal(error) from None

    @default("apply_user_options")
    def _apply_user_options_default(self) -> Any:
        return _apply_user_options

    async def validate_options(self, options: dict[str, Any]) -> None:
        """Turn ``user_options`` into this start's launch request.

        Raises SpawnException with the reason. The Hub has stored the options by then: after a
        refusal the last good ones are restored, or a hostile body would be "the last choice".
        """
        self._request = None
        if not self.serves:
            forget_ended(self.user)
        if tracing.WANTED and tracing.prepared() is not None:
            self.trace = tracing.LaunchTrace(user=self.user.name, server=self.name)
            self.trace.step("admission")
        try:
            ensure_set_up()
            self._request = await launch_request(self, options)
        except PortalError as error:
            if self.trace is not None:
                self.trace.end(error.message)
            self._restore_options(self.options_again)
            raise refusal(error) from None
        self.last_options = self._request.options()
        self.work, self.space = self._request.kind.name, self._request.kind.space_name
        self.partition_automatic = self._request.partition_automatic
        # Stored with the job's id. JupyterHub starts a server with them if it is given none.
        self.user_options = self.options_again

    def _restore_options(self, options: dict[str, Any]) -> None:
        self.user_options = options
        self.orm_spawner.user_options = dict(options)
        self.user.db.commit()


async def _apply_user_options(spawner: UserOptions, options: dict[str, Any]) -> None:
    await spawner.validate_options(options)
