"""Short-lived token of a user for the test session, made in the database as the Hub's account:
``python -m portal.setup.trial_token NAME FILE``, in the Hub's folder."""

from __future__ import annotations

import json
import sys

from jupyterhub import orm, roles, scopes
from jupyterhub.app import JupyterHub

_SECONDS = 900


def make(name: str, config_file: str) -> dict[str, str]:
    """Return the token and its id; the user gets an entry in the Hub if there is none yet."""
    hub = JupyterHub()
    hub.load_config_file(config_file)
    hub.init_db()
    scopes.define_custom_scopes(hub.custom_scopes)  # those that the user's roles have
    user = orm.User.find(hub.db, name)
    if user is None:
        user = orm.User(name=name)
        hub.db.add(user)
        hub.db.commit()
        roles.assign_default_roles(hub.db, entity=user)
    token = user.new_api_token(
        note="portal setup: test session",
        expires_in=_SECONDS,
        # No more than the test needs: its own session, and the end of this token.
        scopes=[
            f"{scope}!user={name}"
            for scope in ("servers", "access:servers", "read:users", "tokens")
        ],
    )
    return {"token": token, "id": f"a{user.api_tokens[-1].id}"}


if __name__ == "__main__":
    print(json.dumps(make(*sys.argv[1:3])))
