"""Makes the files of an Active Directory domain with Samba's own modules, and its people.

python3 samba_domain.py DIRECTORY PASSWORD      (the system's Python, which has these modules)
"""

import logging
import sys
import time
from pathlib import Path

import ldb
from samba.auth import system_session
from samba.dsdb import DS_DOMAIN_FUNCTION_2008_R2
from samba.param import LoadParm
from samba.provision import provision
from samba.samdb import SamDB

BASE = "DC=corp,DC=example,DC=org"
PEOPLE = f"OU=People,{BASE}"
GROUPS = f"OU=Groups,{BASE}"
NEVER_EXPIRES = 0x10000
ENABLED, DISABLED = 0x200, 0x202


def filetime(seconds: float) -> str:
    """A moment (seconds since 1970) as Active Directory writes it."""
    return str(int((seconds + 11644473600) * 10_000_000))


def main(home: Path, password: str) -> None:
    home.mkdir(parents=True)
    (home / "empty.conf").touch()
    settings = LoadParm()
    settings.load(str(home / "empty.conf"))
    provision(
        logging.getLogger("provision"),
        system_session(),
        lp=settings,
        targetdir=str(home),
        realm="CORP.EXAMPLE.ORG",
        domain="CORP",
        serverrole="active directory domain controller",
        dns_backend="NONE",
        adminpass=password,
        hostname="dc1",
        hostip="127.0.0.1",
        use_rfc2307=True,
        skip_sysvolacl=True,
        dom_for_fun_level=DS_DOMAIN_FUNCTION_2008_R2,
        base_schema="2012_R2",
    )
    settings = LoadParm()
    settings.load(str(home / "etc" / "smb.conf"))
    sam = SamDB(url=str(home / "private" / "sam.ldb"), session_info=system_session(), lp=settings)
    for unit in (PEOPLE, GROUPS):
        sam.add({"dn": unit, "objectClass": "organizationalUnit"})
    names = ["ada", "grace", "barbara", "disabled", "expired", "locked", "must-change", "old"]
    sam.newuser("portal", password)
    for name in names:
        sam.newuser(name, password, userou="OU=People", mailaddress=f"{name}@corp.example.org")
    sam.add(
        {
            "dn": f"CN=ws1,CN=Computers,{BASE}",
            "objectClass": "computer",
            "sAMAccountName": "ws1$",
            "userAccountControl": str(0x1000),
        }
    )
    members = {
        "gpu-users": [f"CN=portal-admins,{GROUPS}", f"CN=ws1,CN=Computers,{BASE}"],
        "portal-admins": [],
        "all-staff": [f"CN=Domain Users,CN=Users,{BASE}"],
    }
    for group in members:
        sam.newgroup(group, groupou="OU=Groups")
    people = {
        "gpu-users": ["ada", "disabled", "expired", "locked", "must-change", "old"],
        "portal-admins": ["grace"],
    }
    for group, inner in members.items():
        inner += [f"CN={name},{PEOPLE}" for name in people.get(group, ())]
        message = ldb.Message(ldb.Dn(sam, f"CN={group},{GROUPS}"))
        message["member"] = ldb.MessageElement(inner, ldb.FLAG_MOD_ADD, "member")
        sam.modify(message)
    for name in [f"CN={name},{PEOPLE}" for name in names] + [f"CN=portal,CN=Users,{BASE}"]:
        keeps = ENABLED if "CN=old," in name else ENABLED | NEVER_EXPIRES
        change(sam, name, userAccountControl=str(keeps))
    change(sam, f"CN=disabled,{PEOPLE}", userAccountControl=str(DISABLED | NEVER_EXPIRES))
    change(sam, f"CN=expired,{PEOPLE}", accountExpires=filetime(time.time() - 86400))
    change(sam, f"CN=must-change,{PEOPLE}", userAccountControl=str(ENABLED))
    change(sam, f"CN=must-change,{PEOPLE}", pwdLastSet="0")
    # Ten years: what is made today is used for long.
    years = -3650 * 86400 * 10_000_000
    change(sam, BASE, maxPwdAge=str(years), lockoutThreshold="5")
    change(sam, BASE, lockoutDuration=str(-1800 * 10_000_000))
    change(sam, BASE, lockOutObservationWindow=str(-1800 * 10_000_000))
    del sam
    # What no client may set is written below Samba's modules.
    raw = ldb.Ldb(str(home / "private" / "sam.ldb.d" / f"{BASE.upper()}.ldb"))
    change(raw, f"CN=old,{PEOPLE}", pwdLastSet=filetime(time.time() - 15 * 365 * 86400))
    change(raw, f"CN=locked,{PEOPLE}", lockoutTime=filetime(time.time() + 10 * 365 * 86400))
    change(raw, f"CN=locked,{PEOPLE}", badPwdCount="5")


def change(database: ldb.Ldb, name: str, **values: str) -> None:
    message = ldb.Message(ldb.Dn(database, name))
    for attribute, value in values.items():
        message[attribute] = ldb.MessageElement(value, ldb.FLAG_MOD_REPLACE, attribute)
    database.modify(message)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
