"""Configuration of a JupyterHub with only the LDAP login, for login_hub.py.

There is no proxy: the test uses the Hub's own port. ``$LDAP_TEST_SETTINGS`` is a JSON object with
the settings of LDAPAuthenticator, ``$LDAP_TEST_PORT`` the Hub's port.
"""

import json
import os

from jupyterhub.proxy import Proxy


class NoProxy(Proxy):
    should_start = False

    async def add_route(self, routespec, target, data):
        pass

    async def delete_route(self, routespec):
        pass

    async def get_all_routes(self):
        return {}


c = get_config()  # noqa: F821
c.JupyterHub.proxy_class = NoProxy
c.JupyterHub.hub_bind_url = f"http://127.0.0.1:{os.environ['LDAP_TEST_PORT']}"
c.JupyterHub.bind_url = f"http://127.0.0.1:{os.environ['LDAP_TEST_PORT']}"
c.JupyterHub.db_url = "sqlite:///hub.sqlite"
c.JupyterHub.authenticator_class = "portal.directory.LDAPAuthenticator"
c.JupyterHub.spawner_class = "simple"
c.JupyterHub.log_level = "DEBUG"
c.Authenticator.auth_refresh_age = 1
c.JupyterHub.load_roles = [
    {
        "name": "reader",
        "scopes": ["read:users", "read:users:groups", "list:users"],
        "services": ["reader"],
    }
]
c.JupyterHub.services = [{"name": "reader", "api_token": os.environ["LDAP_TEST_TOKEN"]}]

for name, value in json.loads(os.environ["LDAP_TEST_SETTINGS"]).items():
    c.LDAPAuthenticator[name] = set(value) if name.endswith("_groups") and value else value
