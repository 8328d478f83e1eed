"""Context of a stop: who asks for it and why, in the context variables of
``spawners.lifecycle.stop_reason``.

``Spawner.stop()`` does not get it. The Hub's routes that stop servers set it there, and the tasks
that they begin inherit it.
"""

from __future__ import annotations

from jupyterhub import apihandlers, handlers, orm
from jupyterhub.apihandlers.users import UserAPIHandler
from jupyterhub.handlers.login import LogoutHandler

from ..lifecycle.culler import SERVICE as CULLER
from ..lifecycle.culler import refuse_for_silence
from ..lifecycle.stop_reason import on_behalf_of
from .early_response import EarlyResponse
from .patch import Patch, replace_handlers


class StopServerHandler(EarlyResponse):
    """Handler of ``DELETE users/NAME/server`` and ``…/servers/SERVER``; EarlyResponse's of POST."""

    async def delete(self, user_name: str, server_name: str = "") -> None:
        if isinstance(self.current_user, orm.Service) and self.current_user.name == CULLER:
            refuse_for_silence(self.find_user(user_name), server_name)
        with on_behalf_of(self):
            await super().delete(user_name, server_name)


class DeleteUserHandler(UserAPIHandler):
    """Handler of ``DELETE users/NAME``, which stops that person's server first."""

    async def delete(self, user_name: str) -> None:
        with on_behalf_of(self):
            await super().delete(user_name)


class StoppingLogoutHandler(LogoutHandler):
    """Handler of a logout, which stops the user's servers if a site has ``shutdown_on_logout``."""

    async def default_handle_logout(self) -> None:
        with on_behalf_of(self):
            await super().default_handle_logout()


def apply() -> None:
    """Replace JupyterHub's handlers. Call it after ``early_response``'s."""
    replace_handlers(
        (apihandlers.default_handlers, handlers.default_handlers),
        {
            EarlyResponse: StopServerHandler,
            UserAPIHandler: DeleteUserHandler,
            LogoutHandler: StoppingLogoutHandler,
        },
    )


PATCH = Patch(
    name="stop-context",
    changes=(
        "jupyterhub.apihandlers.users:UserServerAPIHandler.delete",
        "jupyterhub.apihandlers.users:UserAPIHandler.delete",
        "jupyterhub.handlers.login:LogoutHandler.default_handle_logout",
    ),
    why=(
        "Correctness: a session's record and its page show who ended it and why, a session "
        "that does not report is not stopped as idle, and Spawner.stop() gets none of this "
        "information."
    ),
    upstream="none",
    until="JupyterHub tells Spawner.stop() for whom it is called.",
    apply=apply,
)
