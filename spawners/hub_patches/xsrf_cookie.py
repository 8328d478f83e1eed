"""Choice of the ``_xsrf`` cookie of this login, if a browser sends several."""

from __future__ import annotations

from portal.web import tossed

from .patch import Patch

PATCH = Patch(
    name="xsrf-cookie",
    changes=("jupyterhub._xsrf_utils:_get_xsrf_token_cookie",),
    why=(
        "Security: JupyterHub uses the first cookie that it has signed, for any user. A page "
        "on a host below the Hub's that sets another one makes every action of its visitors "
        "fail. The portal's service does the same in its own process (portal/web/tossed.py)."
    ),
    upstream="https://github.com/jupyterhub/jupyterhub/pull/4750 (why it takes the first)",
    until="JupyterHub compares each of them with the login, or names the cookie with __Host-.",
    apply=tossed.protect,
)
