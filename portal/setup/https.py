"""HTTPS by a web server that is there: its file for the portal, its test, and its reload."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from typing import Any

from cryptography import x509

from portal.errors import ConfigurationError

from . import quoting
from .place import Place

_NGINX = """\
# Written by `portal setup`: docs/how-to/https.md.
map $http_upgrade $portal_connection {{
    default upgrade;
    ''      close;
}}

server {{
    listen 443 ssl{http2};
    server_name {names};
    ssl_certificate     {certificate};
    ssl_certificate_key {key};
    client_max_body_size 0;  # files that people upload to their sessions
    # What a browser can be made to send: the Hub deletes cookies that are too large.
    large_client_header_buffers 4 1m;
    proxy_buffer_size 64k;
    proxy_buffers 8 64k;
    gzip on;
    gzip_proxied any;
    gzip_types text/css text/javascript application/javascript application/json;

    location / {{
        proxy_pass http://127.0.0.1:{port};
        proxy_set_header Host $host;
        proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
        proxy_set_header X-Forwarded-Proto $scheme;
        # Kernels and terminals are websockets.
        proxy_http_version 1.1;
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection $portal_connection;
        proxy_read_timeout 1d;
        proxy_buffering off;
        proxy_request_buffering off;
    }}

    location /hub/ {{
        client_max_body_size 1m;
        proxy_pass http://127.0.0.1:{port};
        proxy_set_header Host $host;
        proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
        proxy_set_header X-Forwarded-Proto $scheme;
        proxy_buffering off;
    }}
}}

server {{
    listen 80;
    server_name {names};
    return 301 https://$host$request_uri;
}}
"""

_APACHE = """\
# Written by `portal setup`: docs/how-to/https.md.
<VirtualHost *:443>
    ServerName {name}
    {alias}Protocols h2 http/1.1
    SSLEngine on
    SSLCertificateFile    {certificate}
    SSLCertificateKeyFile {key}
    LimitRequestFieldSize 1048576
    LimitRequestBody 0
    AddOutputFilterByType DEFLATE text/html text/css text/javascript
    AddOutputFilterByType DEFLATE application/javascript application/json

    ProxyPreserveHost On
    RequestHeader set X-Forwarded-Proto https
    ProxyTimeout 86400
    # Kernels and terminals are websockets; the live pages are streams.
    ProxyPass        / http://127.0.0.1:{port}/ upgrade=websocket flushpackets=on
    ProxyPassReverse / http://127.0.0.1:{port}/
</VirtualHost>

<VirtualHost *:80>
    ServerName {name}
    {alias}Redirect permanent / https://{name}/
</VirtualHost>
"""

_CADDY = """\
# Written by `portal setup`: docs/how-to/https.md.
{names} {{
    {tls}encode zstd gzip
    request_body /hub/* {{
        max_size 1MB
    }}
    reverse_proxy 127.0.0.1:{port}
}}
"""
_CADDYFILE = "/etc/caddy/Caddyfile"
_IMPORT = "import /etc/caddy/data-scientist-portal*.caddy"  # a pattern may match nothing
_MODULES = ("ssl", "http2", "proxy_http", "headers", "deflate")


@dataclass(frozen=True)
class WebServer:
    """Web server in front. ``files``: path and content of each file; ``enable``: what turns the
    file on, and the file that says that it is; ``test`` and ``reload``: commands."""

    name: str
    files: list[tuple[str, str]]
    enable: list[tuple[list[str], str]]
    test: list[str]
    reload: str


def web_server(answers: dict[str, Any], place: Place) -> WebServer | None:
    """Return the web server of the answers; None for none. Raises ConfigurationError if it is not
    installed."""
    kind = answers["https"]
    if kind == "none":
        return None
    names = [answers["host_name"]]
    if answers["session_hosts"]:
        names.append(f"*.{names[0]}")
    values = {
        "name": names[0],
        "certificate": quoting.server(answers["certificate"]),
        "key": quoting.server(answers["certificate_key"]),
        "port": answers["ports"][0],
    }
    return {"nginx": _nginx, "apache": _apache, "caddy": _caddy}[kind](place, names, values)


def covers_sessions(place: Place, answers: dict[str, Any]) -> bool:
    """Return True if the certificate is also for the hosts of sessions, ``*.NAME``."""
    if not answers["certificate"]:
        return False
    try:
        raw = place.path(answers["certificate"]).read_bytes()
        extensions = x509.load_pem_x509_certificate(raw).extensions
        names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound):
        return False
    return f"*.{answers['host_name']}" in names.get_values_for_type(x509.DNSName)


def certificate_trouble(place: Place, answers: dict[str, Any]) -> str:
    """Return why the certificate cannot be used with its key; "" if it can."""
    if answers["https"] == "none" or not answers["certificate"]:
        return ""
    certificate, key = answers["certificate"], answers["certificate_key"]
    for name, file in (("certificate", certificate), ("certificate_key", key)):
        if not place.path(file).is_file():
            return f"{name}: {file} does not exist."
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(place.path(certificate), place.path(key), password=lambda: "")
    except (OSError, ValueError) as error:
        return f"certificate: {certificate} and {key} do not belong together ({error})."
    if answers["session_hosts"] and not covers_sessions(place, answers):
        return f"session_hosts: {certificate} is not for *.{answers['host_name']}, too."
    return ""


def name_trouble(answers: dict[str, Any]) -> str:
    """Return which name of the portal this machine cannot resolve; "" if it can."""
    if answers["https"] == "none" or not answers["session_hosts"]:
        return ""
    name = f"some-session.{answers['host_name']}"
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return (
            f"session_hosts: {name} has no address. Add *.{answers['host_name']} to the DNS, or "
            "answer false."
        )
    return ""


def _program(place: Place, *names: str) -> str:
    for name in names:
        if found := place.program(name):
            return found
    raise ConfigurationError(
        f"https: {names[0]} is not installed. Install it, or answer another web server or none."
    )


def _nginx(place: Place, names: list[str], values: dict[str, str]) -> WebServer:
    program = _program(place, "nginx")
    file = "/etc/nginx/conf.d/data-scientist-portal.conf"
    content = _NGINX.format(names=" ".join(names), http2=" http2", **values)
    test = [program, "-t", "-c", str(place.path("/etc/nginx/nginx.conf"))]
    return WebServer("nginx", [(file, content)], [], test, "nginx")


def _apache(place: Place, names: list[str], values: dict[str, str]) -> WebServer:
    program = _program(place, "apachectl", "apache2ctl", "httpd", "apache2")
    alias = f"ServerAlias {names[1]}\n    " if names[1:] else ""
    content = _APACHE.format(alias=alias, **values)
    if place.path("/etc/apache2/sites-available").is_dir():
        site = "data-scientist-portal"
        enabled = "/etc/apache2/{}-enabled/{}"
        enable = [
            (["a2enmod", "-q", name], enabled.format("mods", f"{name}.load")) for name in _MODULES
        ]
        enable.append((["a2ensite", "-q", site], enabled.format("sites", f"{site}.conf")))
        file, test = f"/etc/apache2/sites-available/{site}.conf", [program, "configtest"]
        return WebServer("apache", [(file, content)], enable, test, "apache2")
    file = "/etc/httpd/conf.d/data-scientist-portal.conf"
    return WebServer("apache", [(file, content)], [], [program, "configtest"], "httpd")


def _caddy(place: Place, names: list[str], values: dict[str, str]) -> WebServer:
    program = _program(place, "caddy")
    tls = f"tls {values['certificate']} {values['key']}\n    " if values["certificate"] else ""
    content = _CADDY.format(names=", ".join(names), tls=tls, port=values["port"])
    try:
        main = place.path(_CADDYFILE).read_text()
    except OSError:
        main = ""
    if _IMPORT not in main.splitlines():
        main = f"{main.rstrip()}\n\n{_IMPORT}\n".lstrip()
    files = [("/etc/caddy/data-scientist-portal.caddy", content), (_CADDYFILE, main)]
    test = [program, "validate", "--config", str(place.path(_CADDYFILE)), "--adapter", "caddyfile"]
    return WebServer("caddy", files, [], test, "caddy")
