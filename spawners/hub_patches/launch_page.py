"""Launch page that always shows the form, and a GET of which makes nothing."""

from __future__ import annotations

from collections.abc import Awaitable
from itertools import count
from typing import Any

from jupyterhub import handlers
from jupyterhub.handlers.pages import SpawnHandler
from jupyterhub.scopes import needs_scope
from jupyterhub.utils import url_path_join
from tornado import web
from tornado.httputil import url_concat

from portal.launch.request import options_from_link

from .patch import Patch, replace_handlers

_SINGLE = "You can have one session at a time. Open it, or stop it to start another."
_TOO_MANY = (
    "You have as many sessions as this portal allows. Remove one on the Sessions page to start "
    "another."
)


class LaunchPageHandler(SpawnHandler):
    """Handler of ``/hub/spawn``, ``/hub/spawn/USER`` and ``/hub/spawn/USER/SERVER``."""

    @needs_scope("servers")
    async def _get(self, user_name: str, server_name: str, display_name: str) -> None:
        user = self.find_user(user_name)
        if user is None:
            raise web.HTTPError(404, f"No such user: {user_name}")
        if server_name:
            await self._check_named_server_request(user, server_name, display_name)
        # A server that is not there yet has the form of the default one.
        known = server_name in user.orm_spawners
        spawner = user.get_spawner(server_name if known else "", replace_failed=known)
        taken = known and spawner.active
        once = taken and (getattr(spawner, "reserved", None) or self.get_argument("next", ""))
        if once or not hasattr(spawner, "launch_form"):  # another class of the site
            # JupyterHub's own page leads to the server that runs, or to what is to be opened in it.
            await super()._get(user_name, server_name, display_name)
            return
        address, title, problem = str(self.request.uri), "", ""
        if taken:
            server_name, title, problem = await self._another(user)
            path = url_path_join(self.hub.base_url, "spawn", user.escaped_name, server_name)
            address = url_concat(path, {"display_name": title})
        auth_state = await user.get_auth_state()
        if not spawner.active:
            spawner.handler = self
            await spawner.run_auth_state_hook(auth_state)
        link = self._get_user_options(self._query())
        form = await spawner.launch_form(server_name, options_from_link(link), problem)
        page = await self.render_template(
            "spawn.html",
            for_user=user,
            auth_state=auth_state,
            spawner_options_form=form,
            linked=bool(link),
            another=None if problem else title,
            url=url_concat(address, {"_xsrf": self.xsrf_token.decode("ascii")}),
            spawner=user.spawner,
        )
        self.finish(page)

    def post(
        self, user_name: str | None = None, server_name: str = "", display_name: str = ""
    ) -> Awaitable[None]:
        """Start the server; its title is in the form's address, since no GET has stored it."""
        title = self.get_query_argument("display_name", "") if server_name else ""
        started: Awaitable[None] = super().post(user_name, server_name, title or display_name)
        return started

    def _query(self) -> dict[str, list[str]]:
        """Return the options in the page's address, without JupyterHub's own arguments."""
        names = self.request.query_arguments.keys() - {"next", "display_name"}
        return {name: self.get_query_arguments(name) for name in names}

    async def _another(self, user: Any) -> tuple[str, str, str]:
        """Return the name and the title of a server for one more session, and why it cannot start;
        "" if it can."""
        names = (f"session-{number}" for number in count(2))
        rows = user.orm_spawners
        name = next(name for name in names if name not in rows or not user.spawners[name].active)
        title = name.replace("-", " ").capitalize()
        if not self.allow_named_servers:
            return name, title, _SINGLE
        self.path_args = [user.name, name]  # the POST's, on which the site's limit depends
        try:
            await self._check_named_server_request(user, name, title)
        except web.HTTPError:
            return name, title, _TOO_MANY
        return name, title, ""


def apply() -> None:
    """Replace JupyterHub's handler."""
    replace_handlers((handlers.default_handlers,), {SpawnHandler: LaunchPageHandler})


PATCH = Patch(
    name="launch-page",
    changes=(
        "jupyterhub.handlers.pages:SpawnHandler._get",
        "jupyterhub.handlers.pages:SpawnHandler.post",
    ),
    why=(
        "JupyterHub's page leads a user whose session runs away from the form, so that there is no "
        "way to a second one; it adds a server to the database when its form is shown; and it "
        "starts a server at a link with options, so that any page of the Web could start one."
    ),
    upstream="none",
    until="JupyterHub's page shows its form to whoever asks for it, and starts nothing on a GET.",
    apply=apply,
)
