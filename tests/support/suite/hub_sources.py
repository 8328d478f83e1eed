"""Sources of the patched parts of JupyterHub, as of the last review of each patch.

They are read from files, since those in memory may be patched. After a review of the patches for a
new JupyterHub, ``python tests/support/suite/hub_sources.py`` prints the new table.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from pathlib import Path

# Patches by the portal's service and its sessions, each in its own process, with their files.
ELSEWHERE = {
    "jupyterhub._xsrf_utils:_get_xsrf_token_cookie": "kernels/portal_session/tossed.py",
    "jupyterhub.services.auth:HubOAuth.check_xsrf_cookie": "kernels/portal_session/tossed.py",
    "jupyterhub.services.auth:HubAuth.get_session_id": "portal/web/tossed.py",
    "jupyterhub.singleuser.extension:JupyterHubIdentityProvider.get_user": (
        "kernels/portal_session/course/guests.py"
    ),
    "jupyterhub.singleuser.extension:JupyterHubSingleUser.check_hub_version": (
        "kernels/portal_session/__main__.py"
    ),
}

# "module:name": (signature, sha256 of the source); of a class, its bases.
KNOWN: dict[str, tuple[str, str]] = {
    "batchspawner.api:BatchSpawnerAPIHandler": (
        "(APIHandler)",
        "c1dbdece374c2874e365628d2135dfaee64d90d781b76fffc122d05040db37af",
    ),
    "jupyterhub._xsrf_utils:_get_xsrf_token_cookie": (
        "(handler)",
        "a4b7e2d9db59f2f298049b8c3f853e7d2b6d08214550aebba09f8e0ccd34d341",
    ),
    "jupyterhub.apihandlers.base:APIHandler.get_json_body": (
        "(self)",
        "1db1b9543415316c0a4c2326a100f7a534c0b3594c5252d9bbde847459f05d2c",
    ),
    "jupyterhub.apihandlers.users:SpawnProgressAPIHandler": (
        "(APIHandler)",
        "f1cbd423d67302cd73284afb7189b83a6b568c3aff0b70b0fdefc5fca8559cf8",
    ),
    "jupyterhub.apihandlers.users:UserAPIHandler.delete": (
        "(self, user_name)",
        "4471bb7f65909befc2f835f33642733c3b56fd8fbe0649576860e850c1d27058",
    ),
    "jupyterhub.apihandlers.users:UserServerAPIHandler": (
        "(APIHandler)",
        "fff16db4e388d142db1e0c9ac4abe87da454e69ee9b3ba7807b8a59646d6e2a2",
    ),
    "jupyterhub.apihandlers.users:UserServerAPIHandler.delete": (
        "(self, user_name, server_name='')",
        "89e4db7e9a971051f8990a4398178f08a912a1ecb00919c08f58525c9bd0628e",
    ),
    "jupyterhub.apihandlers.users:UserServerAPIHandler.post": (
        "(self, user_name, server_name='')",
        "e0fc61f3628362298ed643398e297c2c554b480c96dcdef2d12383b7a94d016a",
    ),
    "jupyterhub.apihandlers.users:UserTokenListAPIHandler": (
        "(APIHandler)",
        "06e8a394c13130820dc8b8b6eedaf10806552d773d56ce5088f3bdffd829b0ff",
    ),
    "jupyterhub.app:JupyterHub.init_tornado_application": (
        "(self)",
        "1b4decd630b273bfeef70793294b68d4dc56ab21bf1170b0b2c8aa94b0e27c21",
    ),
    "jupyterhub.handlers.base:BaseHandler.clear_login_cookie": (
        "(self, name=None)",
        "8e8263b9fb47eadbf983ea4048b88d249be296e3fd4648c8c6f75ffe58ac861f",
    ),
    "jupyterhub.handlers.base:BaseHandler.find_user": (
        "(self, name)",
        "677565b6727ef13aec9ef3ff1b665cb80ea7355f774199265261c9ea1bd59669",
    ),
    "jupyterhub.handlers.base:BaseHandler.get_session_cookie": (
        "(self)",
        "1701bd6a37ad8ce3ed42e4f721311b09171e505392a5d5ba502af5c9a07efa50",
    ),
    "jupyterhub.handlers.base:BaseHandler.set_session_cookie": (
        "(self)",
        "45a242df40d738775cbfa7eab2ae7e6f284b59472fa1d8a4c591427cc955e8ab",
    ),
    "jupyterhub.handlers.base:BaseHandler.spawn_single_user": (
        "(self, user, server_name='', display_name='', options=None)",
        "83e4731f2505cc8b5fa718f86de5380801b8cd4054385da6ac8741360ff2fce8",
    ),
    "jupyterhub.handlers.base:CSPReportHandler": (
        "(BaseHandler)",
        "a49bde6bc1251395f5d4b185277ec95b241d41042b604645ef8996a10b93ff86",
    ),
    "jupyterhub.handlers.base:UserUrlHandler._redirect_to_user_server": (
        "(self, user, spawner)",
        "0078acd2a772686aebcafc6c7f5080318f702668f70cfdd5253a49419b902c2b",
    ),
    "jupyterhub.handlers.login:LoginHandler": (
        "(BaseHandler)",
        "743389adf89585201243d721ed2b74fc307de88e220a90b4b4c0ee987369ea39",
    ),
    "jupyterhub.handlers.login:LogoutHandler.default_handle_logout": (
        "(self)",
        "96f84e530fdc6bd48591dcaa213e2a25eb080c0b4cf79c77962ffcd3203beb63",
    ),
    "jupyterhub.handlers.pages:SpawnHandler": (
        "(BaseHandler)",
        "41e2eb63e6347e83ba5c009811197eb99da085548590b89c192b34cf4e3a3f7d",
    ),
    "jupyterhub.oauth.provider:JupyterHubOAuthServer.add_client": (
        "(self, client_id, client_secret, redirect_uri, allowed_scopes=None, description='')",
        "37e7d04b6eb9bdad040c6acff10aac9b9bd1cad553f6effb9f886132a2e448e5",
    ),
    "jupyterhub.orm:register_ping_connection": (
        "(engine)",
        "3358d330aae6f3ec327a1d099fdc700fbe1e2933ae25bbd9a745b547dfcba736",
    ),
    "jupyterhub.services.auth:HubAuth.get_session_id": (
        "(self, handler)",
        "e0e30c609557110a29c51b3b331af16a95668ed874e3ed58f9d2c1934cfd003b",
    ),
    "jupyterhub.services.auth:HubOAuth.check_xsrf_cookie": (
        "(self, handler)",
        "d412c95b6ab4b9302008d4f5f753b13eebfff1a982bd3aa9991e4ab8daf4dd2f",
    ),
    "jupyterhub.services.service:_ServiceSpawner.start": (
        "(self)",
        "e9749e509553411903e83d9f7edce9265a340d03d49f2401aec082e84cc4e2c2",
    ),
    "jupyterhub.singleuser.extension:JupyterHubIdentityProvider.get_user": (
        "(self, handler)",
        "374cc70cd3cfd728b6f2872ae7d2e86c65314ec4da3fdca07fff22780683974a",
    ),
    "jupyterhub.singleuser.extension:JupyterHubSingleUser.check_hub_version": (
        "(self)",
        "1665ef6bd3c9d5b14a83b429b63136f2c35f0fae9347403caed0a95e303e5131",
    ),
    "jupyterhub.user:User._wait_up": (
        "(self, spawner)",
        "ebfdce8726c6654a806ed2731d2744f3fea9efd6fdd5d84a6c62023fd23e5bd1",
    ),
    "jupyterhub.user:User.server_url": (
        "(self, server_name='')",
        "181d129d12f09d2d3545cd015461330709a3fd69bbee95506dc6470595b56cdd",
    ),
    "jupyterhub.user:User.spawn": (
        "(self, server_name='', display_name='', options=None, handler=None)",
        "890673db0a1e343f79b4dae7b74282b896a1493abe34399b7b7d1415442d5019",
    ),
}


def packages() -> Path:
    """Return the folder of the installed packages."""
    import jupyterhub

    return Path(jupyterhub.__file__).parents[1]


def source_of(name: str, folder: Path) -> tuple[str, str]:
    """Return the signature of ``name`` ("module:qualified.name") and the sha256 of its source with
    its decorators, from the packages in ``folder``. Raises LookupError if it does not exist."""
    module, _, qualified = name.partition(":")
    path = folder / (module.replace(".", "/") + ".py")
    if not path.is_file():
        raise LookupError(f"there is no module {module}")
    text = path.read_text()
    node: ast.AST = ast.parse(text)
    for part in qualified.split("."):
        nodes = [item for item in getattr(node, "body", []) if getattr(item, "name", None) == part]
        if not nodes:
            raise LookupError(f"there is no {part} in {module}")
        node = nodes[-1]
    assert isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    first = min(item.lineno for item in (node, *node.decorator_list))
    lines = text.splitlines(keepends=True)[first - 1 : node.end_lineno]
    inside = (
        ast.unparse(node.args)
        if not isinstance(node, ast.ClassDef)
        else ", ".join(ast.unparse(base) for base in node.bases)
    )
    return f"({inside})", hashlib.sha256("".join(lines).encode()).hexdigest()


def changed(folder: Path) -> dict[str, str]:
    """Return the names whose source in ``folder`` differs from KNOWN, with the reason."""
    reasons = {}
    for name, known in KNOWN.items():
        try:
            signature, digest = source_of(name, folder)
        except LookupError as error:
            reasons[name] = str(error)
            continue
        if signature != known[0]:
            reasons[name] = f"its signature is {signature} and was {known[0]}"
        elif digest != known[1]:
            reasons[name] = "its source has changed"
    return reasons


def main() -> None:
    """Print the table of the installed packages."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
    from spawners.hub_patches import PATCHES

    names = {name for patch in PATCHES for name in patch.changes} | set(ELSEWHERE)
    for name in sorted(names):
        signature, digest = source_of(name, packages())
        print(f'    "{name}": (\n        {signature!r},\n        "{digest}",\n    ),')


if __name__ == "__main__":
    main()
