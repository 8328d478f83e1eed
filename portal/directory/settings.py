"""Settings of the LDAP authenticator, and the check that refuses unsafe or missing ones.

A Hub imports every installed authenticator. So what needs ldap3, which takes 5 MiB, is imported
when an authenticator is made.
"""

from __future__ import annotations

import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from traitlets import Bool, Enum, Float, Integer, List, Unicode, default
from traitlets import Set as SetTrait

from ..errors import ConfigurationError
from ..setting import setting
from . import filters
from .filters import USERNAME
from .login import PortalLogin

if TYPE_CHECKING:
    from .people import People


class DirectorySettings(PortalLogin):
    """Settings of ``LDAPAuthenticator``, configured as ``c.LDAPAuthenticator.…``."""

    servers = setting(
        List(Unicode()),
        """LDAP servers with the same tree, tried in this order until one answers. `ldap://` uses
        StartTLS before anything else is sent; `ldaps://` uses TLS from the start.""",
        'c.LDAPAuthenticator.servers = ["ldaps://ldap1.example.org", "ldap://ldap2.example.org:389"]',
    )

    ca_file = setting(
        Unicode(),
        """File of the certificate authorities that the LDAP servers' certificates are checked
        against. Empty: those of the operating system.""",
        'c.LDAPAuthenticator.ca_file = "/etc/ssl/certs/example-org-ca.pem"',
    ).tag(backup="files")

    verify_certificates = setting(
        Bool(True),
        """Verify the servers' certificates. If off, anyone who can impersonate a server can read
        every password, and the Hub starts only if `insecure_allow_unverified_servers = True` is
        also set.""",
        "c.LDAPAuthenticator.verify_certificates = False",
    )

    insecure_allow_unverified_servers = setting(
        Bool(False),
        "Confirm `verify_certificates = False`.",
        "c.LDAPAuthenticator.insecure_allow_unverified_servers = True",
    )

    use_tls = setting(
        Bool(True),
        """Use TLS. If off, `ldap://` servers receive names and passwords in clear text, and the Hub
        starts only if `insecure_allow_clear_text_passwords = True` is also set.""",
        "c.LDAPAuthenticator.use_tls = False",
    )

    insecure_allow_clear_text_passwords = setting(
        Bool(False),
        "Confirm `use_tls = False`.",
        "c.LDAPAuthenticator.insecure_allow_clear_text_passwords = True",
    )

    receive_timeout = setting(
        Integer(5, min=1),
        "Seconds to wait for each response of a connected server.",
        "c.LDAPAuthenticator.receive_timeout = 3",
    )

    login_timeout = setting(
        Float(15.0, min=0.1),
        """Maximum seconds for a login; after that, the login page shows "The directory does not
        answer". Leave time for a second server: more than 3 s for the connection to the
        first one plus `receive_timeout`.""",
        "c.LDAPAuthenticator.login_timeout = 10",
    )

    # Seconds that a page waits for a refresh of the user's groups; a slower result is used for the
    # next page. Requests that change something, and all pages of a user whom the directory refused,
    # wait up to ``login_timeout``.
    refresh_patience = Float(0.25)

    threads = setting(
        Integer(8, min=1),
        "Maximum number of concurrent LDAP logins, and of concurrent refreshes.",
        "c.LDAPAuthenticator.threads = 16",
    )

    lockout_threshold = setting(
        Integer(5, min=0),
        """Number of wrong passwords after which the directory locks an account (`lockoutThreshold`
        of Active Directory, `pwdMaxFailure` of OpenLDAP, `passwordMaxFailure` of 389-ds). For each
        user name, the portal forwards one fewer within `lockout_window`, and two fewer from unknown
        browsers, so that guessing passwords here cannot lock an account. 0: the directory locks no
        accounts, and guesses are slowed down instead, by a delay that doubles each time.""",
        "c.LDAPAuthenticator.lockout_threshold = 10",
    )

    lockout_window = setting(
        Integer(900, min=1),
        """Seconds after which the directory resets its count of wrong passwords
        (`lockOutObservationWindow`, `pwdFailureCountInterval`, `passwordResetFailureCount`).""",
        "c.LDAPAuthenticator.lockout_window = 1800",
    )

    wrong_passwords_per_address = setting(
        Integer(20, min=1),
        """Number of wrong passwords from one address within `lockout_window` before the address has
        to wait. The delay doubles each time, up to five minutes. Each user who logs in from the
        address raises the limit by one. Users who have logged in with the same browser before do
        not wait. List proxies in front of the portal in `c.JupyterHub.trusted_downstream_ips`.""",
        "c.LDAPAuthenticator.wrong_passwords_per_address = 50",
    )

    people_base = setting(
        Unicode(),
        "Base DN of users.",
        'c.LDAPAuthenticator.people_base = "ou=people,dc=example,dc=org"',
    )

    people_filter = setting(
        Unicode("(uid={username})"),
        """LDAP filter for a user's entry; `{username}` is replaced, escaped. A user whose entry no
        longer matches is logged out at the next refresh.""",
        "# Active Directory, without groups, computers and disabled accounts\n"
        'c.LDAPAuthenticator.people_filter = "(&(objectCategory=person)(sAMAccountName={username})'
        '(!(userAccountControl:1.2.840.113556.1.4.803:=2)))"',
    )

    username_attribute = setting(
        Unicode("uid"),
        "Attribute of the user name.",
        'c.LDAPAuthenticator.username_attribute = "sAMAccountName"  # Active Directory',
    )

    mail_attribute = setting(
        Unicode("mail"),
        "Attribute of the mail address, for `c.Notices`. The first value is used.",
        'c.LDAPAuthenticator.mail_attribute = "mailPrimaryAddress"',
    )

    bind_name_templates = setting(
        List(Unicode()),
        """Bind as the user who logs in, with these names in turn (DNs, or a UPN for Active
        Directory). Empty: search for the user first and bind as the entry that was found.""",
        """c.LDAPAuthenticator.bind_name_templates = ["uid={username},ou=people,dc=example,dc=org"]
        # or, for Active Directory
        c.LDAPAuthenticator.bind_name_templates = ["{username}@corp.example.org"]""",
    )

    search_bind_dn = setting(
        Unicode(),
        """DN of the account that searches users and groups. Without it, groups are refreshed only
        at login, and `bind_name_templates` is required.""",
        'c.LDAPAuthenticator.search_bind_dn = "cn=portal,ou=services,dc=example,dc=org"',
    )

    search_password_file = setting(
        Unicode(),
        """File with the search account's password, readable only by the Hub's account. It is read
        for each use, so the password can change while the Hub runs.""",
        'c.LDAPAuthenticator.search_password_file = "/etc/data-scientist-portal/ldap-password"',
    ).tag(backup="secret")

    search_anonymously = setting(
        Bool(False),
        "Search without an account, if the directory allows anonymous reads.",
        "c.LDAPAuthenticator.search_anonymously = True",
    )

    groups_base = setting(
        Unicode(),
        """Base DN of groups. Only users who are allowed to appoint admins should have write access
        below it. Empty: no groups.""",
        'c.LDAPAuthenticator.groups_base = "ou=groups,dc=example,dc=org"',
    )

    groups_filter = setting(
        Unicode(filters.GROUPS),
        "LDAP filter for groups.",
        'c.LDAPAuthenticator.groups_filter = "(&(objectClass=groupOfNames)(cn=hpc-*))"',
    )

    group_name_attribute = setting(
        Unicode("cn"),
        "Attribute that becomes the Hub group's name.",
        'c.LDAPAuthenticator.group_name_attribute = "cn"',
    )

    nested_groups = setting(
        Enum(("search", "ad", "off"), "search"),
        """How groups in groups are resolved: `"search"` queries them level by level on any server;
        `"ad"` lets Active Directory resolve them in one search (matching rule
        1.2.840.113556.1.4.1941); `"off"` uses only the groups that list the user.""",
        'c.LDAPAuthenticator.nested_groups = "ad"',
    )

    group_depth = Integer(10)  # levels that `nested_groups = "search"` follows

    admin_groups = setting(
        SetTrait(Unicode()),
        "Members of these groups are admins of the Hub until they leave the group.",
        'c.LDAPAuthenticator.admin_groups = {"portal-admins"}',
    )

    allowed_groups = setting(
        SetTrait(Unicode()),
        "Only members of these groups, `allowed_users` and admins may log in.",
        'c.LDAPAuthenticator.allowed_groups = {"gpu-users"}',
    ).tag(allow_config=True)

    @default("manage_groups")
    def _manage_groups(self) -> bool:
        return bool(self.groups_base)  # without groups here, those made in the Hub stay

    @default("allow_all")
    def _allow_all(self) -> bool:
        return not (self.allowed_users or self.allowed_groups or self.allow_existing_users)

    @default("auth_refresh_strict")
    def _auth_refresh_strict(self) -> bool:
        return True  # tokens of people who left the directory end with their login

    @default("refresh_pre_spawn")
    def _refresh_pre_spawn(self) -> bool:
        return True

    @default("allow_existing_users")
    def _allow_existing_users(self) -> bool:
        # JupyterHub's default lets in everybody in its database once allowed_users is set.
        return False

    def check_settings(self) -> None:
        """Raise ConfigurationError, with a remedy, for settings that cannot or must not work."""
        if not self.servers:
            raise ConfigurationError(
                "LDAPAuthenticator.servers is empty: name at least one server, such as "
                '"ldaps://host".'
            )
        if not self.verify_certificates and not self.insecure_allow_unverified_servers:
            raise ConfigurationError(
                "LDAPAuthenticator.verify_certificates is off: anyone who can impersonate the "
                "LDAP server can read every password. Set LDAPAuthenticator.ca_file "
                "to the authority that signed the server's certificate, or, if you accept "
                "this, also set LDAPAuthenticator.insecure_allow_unverified_servers = True."
            )
        if not self.use_tls and not self.insecure_allow_clear_text_passwords:
            raise ConfigurationError(
                "LDAPAuthenticator.use_tls is off: passwords are sent over the network in "
                "clear text. Leave it on (ldap:// servers then use StartTLS), or, if you "
                "accept this, also set LDAPAuthenticator.insecure_allow_clear_text_passwords "
                "= True."
            )
        templates = self.bind_name_templates
        if any(USERNAME not in template for template in (*templates, self.people_filter)):
            raise ConfigurationError(
                "LDAPAuthenticator.people_filter and each of bind_name_templates must contain "
                f"{USERNAME}."
            )
        if not templates and not (self.search_bind_dn or self.search_anonymously):
            raise ConfigurationError(
                "LDAPAuthenticator can neither bind as the user who signs in nor search for "
                "the user: set bind_name_templates, or search_bind_dn and "
                "search_password_file."
            )
        needs_base = any("=" not in template for template in templates) or not templates
        if not self.people_base and (needs_base or self.search_bind_dn):
            raise ConfigurationError(
                "LDAPAuthenticator.people_base is empty: set it to the base DN of the users, "
                'such as "ou=people,dc=example,dc=org".'
            )
        if (self.admin_groups or self.allowed_groups) and not self.groups_base:
            raise ConfigurationError(
                "LDAPAuthenticator.groups_base is empty, so admin_groups and allowed_groups "
                "have no members: set it to the base DN of the groups."
            )
        for trait in ("people_filter", "groups_filter"):
            self._check_filter(trait)
        if self.search_bind_dn:
            self.read_search_password()
        re.compile(self.username_pattern)

    @property
    def realms(self) -> set[str]:
        """Realms of the site's user names, in lower case: of ``bind_name_templates``
        ("{username}@example.org") and the domain of ``people_base`` ("dc=example,dc=org")."""
        upns = [name for name in self.bind_name_templates if "=" not in name]
        parts = re.findall(r"\bdc=([^,+]+)", self.people_base, re.IGNORECASE)
        realms = {name.partition("@")[2] for name in upns} | {".".join(parts)}
        return {realm.strip().lower() for realm in realms} - {""}

    def _check_filter(self, trait: str) -> None:
        from ldap3.core.exceptions import LDAPException
        from ldap3.operation.search import parse_filter

        text = getattr(self, trait)
        try:
            parse_filter(text.replace(USERNAME, "x"), None, True, True, None, False)
        except LDAPException as error:
            raise ConfigurationError(
                f"LDAPAuthenticator.{trait} is not an LDAP filter: {text} ({error})."
            ) from error

    def read_search_password(self) -> str:
        """Return the search account's password. Raises ConfigurationError."""
        path = Path(self.search_password_file)
        try:
            password = path.read_text().strip("\r\n") if self.search_password_file else ""
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(
                f"LDAPAuthenticator.search_password_file: {path} cannot be read ({error})."
            ) from error
        if not password:
            raise ConfigurationError(
                "LDAPAuthenticator.search_password_file does not name a file with a password, "
                "but search_bind_dn is set."
            )
        if path.stat().st_mode & stat.S_IROTH:
            self.log.warning(
                "LDAP: every user of this machine can read %s; set its mode to 600", path
            )
        return password

    def make_people(self) -> People:
        """Build the directory that these settings describe. Raises ConfigurationError."""
        from .groups import Groups
        from .people import People
        from .servers import Servers

        protection = "verified" if self.verify_certificates else "unverified"
        servers = Servers(
            tuple(self.servers),
            protection=protection if self.use_tls else "none",  # type: ignore[arg-type]
            ca_file=self.ca_file,
            receive_timeout=self.receive_timeout,
            log=self.log,
        )
        groups = Groups(
            self.groups_base,
            filter=self.groups_filter,
            name_attribute=self.group_name_attribute,
            nesting=self.nested_groups,  # type: ignore[arg-type]
            depth=self.group_depth,
            log=self.log,
        )
        return People(
            servers,
            groups,
            base=self.people_base,
            filter=self.people_filter,
            name_attribute=self.username_attribute,
            mail_attribute=self.mail_attribute,
            bind_names=tuple(self.bind_name_templates),
            search_name=self.search_bind_dn,
            search_password=self.read_search_password,
            search_anonymously=self.search_anonymously,
            log=self.log,
        )
