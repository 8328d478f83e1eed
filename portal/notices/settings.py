"""Settings of a site's mail."""

from __future__ import annotations

import os

from traitlets import Bool, Enum, Integer, Unicode, default
from traitlets.config import LoggingConfigurable

from portal.errors import ConfigurationError
from portal.setting import setting

from .server import MailServer
from .words import address_of

USERNAME = "{username}"


class NoticeSettings(LoggingConfigurable):
    """Settings of `Notices`, and their check."""

    smtp_host = setting(
        Unicode(""),
        "The site's mail server. Empty: no mail is sent, and pages do not offer it.",
        'c.Notices.smtp_host = "smtp.example.org"',
    )

    smtp_port = setting(
        Integer(0, min=0, max=65535),
        """Port of the mail server; 0: the standard port, 587 for "starttls", 465 for "tls", 25 for
        "none".""",
        "c.Notices.smtp_port = 2525",
    )

    encryption = setting(
        Enum(("starttls", "tls", "none"), default_value="starttls"),
        """Encryption of the connection: "starttls" (no mail is sent if the server does not offer
        it), "tls" from the start, or "none". The server's certificate is always verified. With
        "none", no password is sent.""",
        'c.Notices.encryption = "tls"',
    )

    ca_file = setting(
        Unicode(""),
        """File of the certificate authorities that the mail server's certificate is checked
        against. Empty: those of the operating system.""",
        'c.Notices.ca_file = "/etc/ssl/certs/example-org-ca.pem"',
    ).tag(backup="files")

    user = setting(
        Unicode(""),
        "Account at the mail server; empty: no authentication.",
        'c.Notices.user = "portal"',
    )

    password_file = setting(
        Unicode(""),
        "File with the password of `user`, mode 0600; it is read for each mail.",
        'c.Notices.password_file = "/etc/data-scientist-portal/mail-password"',
    ).tag(backup="secret")

    sender = setting(
        Unicode(""),
        "Sender address of the mails, optionally with a name before it.",
        'c.Notices.sender = "GPU portal <gpu-portal@example.org>"',
    )

    address = setting(
        Unicode("directory"),
        """Source of mail addresses: "directory" reads them from LDAP
        (c.LDAPAuthenticator.mail_attribute, with the search account) or uses the address that
        OpenID Connect gave at login (c.OIDCAuthenticator.mail_claim); any other value is a pattern
        with {username}.""",
        'c.Notices.address = "{username}@example.org"',
    )

    public_url = setting(
        Unicode(),
        "Public address of the portal, for links in mails. Default: c.JupyterHub.public_url.",
        'c.Notices.public_url = "https://gpu.example.org/"',
    )

    waited = setting(
        Integer(120, min=0),
        """Minimum seconds in the queue for a mail about a session's start: users who waited less
        are still on the page.""",
        "c.Notices.waited = 300",
    )

    before_end = setting(
        Integer(15 * 60, min=60),
        """Seconds before a session's end at which the mail is sent. If a session is extended,
        another mail is sent before its new end.""",
        "c.Notices.before_end = 1800",
    )

    wanted = setting(
        Bool(False),
        "Send mail to users who have not set a preference.",
        "c.Notices.wanted = True",
    )

    @default("public_url")
    def _default_public_url(self) -> str:
        # JupyterHub tells its services (jupyterhub/services/service.py).
        hub = os.environ.get("JUPYTERHUB_PUBLIC_HUB_URL", "")
        return hub.removesuffix("/").removesuffix("hub")

    @property
    def on(self) -> bool:
        """Return True if this site sends mail."""
        return bool(self.smtp_host)

    def check_settings(self) -> None:
        """Check the settings. Raises ConfigurationError if they cannot work."""
        try:
            address_of(self.sender)
            if self.address != "directory":
                address_of(self.address.replace(USERNAME, "ada"))
        except ValueError as error:
            raise ConfigurationError(f"c.Notices.sender or c.Notices.address: {error}.") from None
        if self.address != "directory" and USERNAME not in self.address:
            raise ConfigurationError(
                f"c.Notices.address must be 'directory' or contain {USERNAME}: otherwise all mail "
                "goes to one address."
            )
        if not self.public_url.startswith(("https://", "http://")):
            raise ConfigurationError(
                "c.Notices.public_url is not set: the mails need the portal's address, as "
                '"https://gpu.example.org/".'
            )
        if self.user and (self.encryption == "none" or not self.password_file):
            raise ConfigurationError(
                "c.Notices.user needs c.Notices.password_file and an encrypted connection "
                "(c.Notices.encryption)."
            )

    @property
    def server(self) -> MailServer:
        """Mail server of these settings."""
        usual = {"starttls": 587, "tls": 465, "none": 25}[str(self.encryption)]
        return MailServer(
            self.smtp_host,
            self.smtp_port or usual,
            encryption=str(self.encryption),
            ca_file=self.ca_file,
            user=self.user,
            password_file=self.password_file,
        )
