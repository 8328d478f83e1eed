#!/usr/bin/python3 -I
"""Make and keep the folder of a project, as root: portal-project-folder PROJECT ACTION.

The portal's account runs this through sudo, and is trusted no further than with the folders of
projects: it chooses a project, an action and, in a file, the members. All else is in SETTINGS,
which only root can change. Everything is opened by descriptor, name by name, never through a link.
The environment is not read. Access is by ACLs with named users, written as the kernel's attribute
(include/uapi/linux/posix_acl_xattr.h): that takes a descriptor, is atomic and exact, and root
starts no other program. The folder itself is root's: its ACL counts at once for all that is inside.
"""

import contextlib
import errno
import fcntl
import grp
import json
import os
import pwd
import re
import signal
import stat
import struct
import sys

SETTINGS = "/etc/data-scientist-portal/project-folders.json"
ACTIONS = ("make", "repair-list", "repair", "archive", "restore", "probe")
PROJECT = r"(?=.{1,20}\Z)[a-z0-9]+(-[a-z0-9]+)*"  # as in portal/models/space.py
KEYS = dict.fromkeys(("program", "root", "members", "state", "service", "people", "group"), str)
KEYS["minimum_uid"] = int
RIGHTS = {"owner": 7, "member": 7, "reader": 5}
ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
ENTRY = struct.Struct("<HHI")  # tag, rights, id
USER, NAMED, GROUP, MASK, OTHER = 0x01, 0x02, 0x04, 0x10, 0x20
NONE, NOBODY = 0xFFFFFFFF, 65534  # the id of entries without one; an account for nothing
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
PROBE, NUMBERS = ".probe", range(1 << 30, (1 << 30) + 4)  # no project has a dot, no user these
MOST_MEMBERS, MOST_LISTED = 400, 100_000
DEEPEST, SHOWN, PATIENCE, LONGEST = 200, 20, 30, 3600  # levels, names, seconds, seconds
WAYS = {
    errno.ELOOP: "It is a symbolic link: give the path without links.",
    errno.ENOTDIR: "It is no folder, or a symbolic link to one.",
    errno.EOPNOTSUPP: "The file system has no POSIX ACLs.",
    errno.EACCES: "The file system refuses root, as NFS does (root_squash).",
    errno.EPERM: "The file system refuses root, as NFS does (root_squash).",
}


class Refusal(Exception):
    """Refusal, with a sentence."""


def folder_at(path, people=(0,)):
    """Return a descriptor of the folder at ``path``, which only ``people`` (uids) can replace."""
    fd = os.open("/", FOLDER)
    for name in path.strip("/").split("/"):
        fd, before = os.open(name, FOLDER, dir_fd=fd), fd
        os.close(before)
        status = os.fstat(fd)
        if status.st_uid not in people or status.st_mode & 0o1022 in (0o002, 0o020, 0o022):
            raise Refusal(f"'{name}' in {path} could be replaced: correct its owner or mode.")
    return fd


def read_json(folder, name, people, most=1 << 18):
    """Return the object in a file that only ``people`` can write; None if there is none."""
    try:
        fd = os.open(name, FILE, dir_fd=folder)
    except FileNotFoundError:
        return None
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        plain = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
        if not plain or status.st_mode & 0o022 or status.st_uid not in people:
            raise Refusal(f"'{name}' is not a plain file that only its proper owner can write.")
        try:
            value = json.loads(file.read(most)) if status.st_size < most else None
        except (ValueError, RecursionError):
            value = None
    if not isinstance(value, dict):
        raise Refusal(f"'{name}' is not a JSON object.")
    return value


def write_json(folder, name, value):
    """Write a file in the folder of states, completely or not at all."""
    new = name + ".new"
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | FILE, 0o600, dir_fd=folder)
    with open(fd, "w") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(fd)
    os.rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)


def read_settings():
    directory, name = os.path.split(SETTINGS)
    settings = read_json(folder_at(directory), name, (0,)) or {}
    for key in (*KEYS, *settings):
        if key not in KEYS or type(settings.get(key)) is not KEYS[key]:
            raise Refusal(f"{SETTINGS}: {key!a} is missing, unknown or not of its type.")
    for key in ("root", "members", "state"):
        if not re.fullmatch(r"(/[\w.-]*[\w-])+", settings[key]):
            raise Refusal(f"{SETTINGS}: '{key}' must be an absolute path without '..'.")
    service, group = pwd.getpwnam(settings["service"]).pw_uid, grp.getgrnam(settings["group"])
    if min(settings["minimum_uid"], group.gr_gid) < 500:
        raise Refusal(f"{SETTINGS}: 'minimum_uid' and the id of 'group' must be at least 500.")
    return settings, service, group.gr_gid


def rights_of(project, settings, service):
    """Return uid -> rights of the members that are users here, and the names that are none."""
    writers, people = (0, service), grp.getgrnam(settings["people"]).gr_gid
    given = read_json(folder_at(settings["members"], writers), project + ".json", writers) or {}
    members = given.get("members")
    if set(given) != {"project", "members"} or given["project"] != project:
        raise Refusal(f"Project '{project}' has no file of its members.")
    if not isinstance(members, dict) or len(members) > MOST_MEMBERS:
        raise Refusal(f"Project '{project}' may have at most {MOST_MEMBERS} members.")
    rights, unknown = {}, []
    for name, role in members.items():
        if role not in list(RIGHTS) or not re.fullmatch(r"[^\s\x00-\x1f\x7f,:/]{1,255}", name):
            raise Refusal(f"{name!a} with the role {role!a} cannot be a member.")
        try:
            account = pwd.getpwnam(name)
            uid, groups = account.pw_uid, os.getgrouplist(account.pw_name, account.pw_gid)
        except (KeyError, UnicodeError):
            unknown.append(name)
            continue
        if uid < settings["minimum_uid"] or uid in (NOBODY, service) or uid in rights:
            raise Refusal(f"{name!a} has uid {uid}, which is a service's or another member's.")
        if people in groups:
            rights[uid] = RIGHTS[role]
        else:
            unknown.append(name)
    if members and not rights:
        raise Refusal("No member is a user here: look at the list, and at the name service.")
    return rights, unknown


def mount_of(fd):
    """Return the id of a descriptor's mount: a bind mount has the same device as its source."""
    with open(f"/proc/self/fdinfo/{fd}") as file:
        return next(line.split()[1] for line in file if line.startswith("mnt_id:"))


def quota_of(fd):
    """Return whether the file system has quotas by project; this program sets none."""
    with open("/proc/self/mountinfo") as file:
        options = next(line for line in file if line.split()[0] == mount_of(fd)).rsplit(" ", 1)[1]
    on = {"prjquota", "pquota"} & set(options.strip().split(","))
    return "on" if on else "this file system has none"


def acl(user, rights, group, mask):
    """Return the attribute: owner's, members', group's rights and the mask; others have none."""
    named = [(NAMED, rights[uid], uid) for uid in sorted(rights)]
    rows = [(USER, user, NONE), *named, (GROUP, group, NONE), (MASK, mask, NONE), (OTHER, 0, NONE)]
    return struct.pack("<I", 2) + b"".join(ENTRY.pack(*row) for row in rows)


def attribute(path, name):
    try:
        return os.getxattr(path, name)
    except OSError as error:
        if error.errno != errno.ENODATA:
            raise
        return None


class Work:
    """Work on one project's tree; ``listed``: the only files to change."""

    def __init__(self, action, rights, owners, archived, listed=None):
        self.action, self.owners, self.archived, self.listed = action, owners, archived, listed
        self.rights = {uid: r & 5 for uid, r in rights.items()} if archived else rights
        self.changes, self.refused = [], []

    def wanted(self, mode, now, whole):
        """Return the ACL that a file or folder with the ACL ``now`` should have; None: that one.

        What archiving removes is kept in the group's entry, which the mask makes void: its w is the
        owner's right to write, its x the mask's.
        """
        user, mask, kept = mode >> 6 & 7, mode >> 3 & 7, 0
        rows = {tag: rights for tag, rights, _ in ENTRY.iter_unpack((now or b"")[4:])}
        if MASK in rows:
            kept = rows[GROUP]
        user, mask = user | kept & 2, mask | kept << 1 & 2
        if whole:
            user = mask = 7 if stat.S_ISDIR(mode) else user
        elif now is None and self.action == "make":
            return None  # moved here with a mode of its own: repair lists it first
        if self.archived:
            return acl(user & 5, self.rights, user & 2 | mask >> 1 & 1, mask & 5)
        return acl(user, self.rights, 0, mask)

    def correct(self, fd, path, whole):
        """Correct the file or folder behind a descriptor, or list it."""
        place, status = f"/proc/self/fd/{fd}", os.fstat(fd)
        now, both = attribute(place, ACCESS), 5 if self.archived else 7
        pairs = [(ACCESS, now, self.wanted(status.st_mode, now, whole))]
        if stat.S_ISDIR(status.st_mode) and pairs[0][2]:
            default = acl(both, self.rights, 0, both)
            pairs.insert(0, (DEFAULT, attribute(place, DEFAULT), default))
        pairs = [(name, new) for name, now, new in pairs if new and new != now]
        if pairs and (self.listed is None or (path, status.st_ino) in self.listed):
            self.changes.append((path, status.st_ino))
            for name, new in pairs if self.action != "repair-list" else ():
                os.setxattr(place, name, new)

    def walk(self, folder, mount, path="", depth=1):
        """Correct what is below a folder: only plain files and folders of members and former ones,
        on the same mount, with one name and without set-user-ID."""
        with os.scandir(folder) as entries:
            for name in (entry.name for entry in entries):
                fd = None
                try:
                    # O_PATH opens no device, pipe or link, and so has no effect on it.
                    fd = os.open(name, os.O_PATH | FILE, dir_fd=folder)
                    self.enter(fd, mount, path + name, depth)
                except FileNotFoundError:
                    pass  # removed meanwhile
                except PermissionError as error:
                    self.refused.append(f"{path + name}: {error.strerror}")
                finally:
                    if fd is not None:
                        os.close(fd)

    def enter(self, fd, mount, path, depth):
        status = os.fstat(fd)
        plain, folder = stat.S_ISREG(status.st_mode), stat.S_ISDIR(status.st_mode)
        if not plain and not folder:
            return  # links and pipes give access to nothing
        reasons = {
            "something is mounted on it": mount_of(fd) != mount,
            f"uid {status.st_uid} was never a member": status.st_uid not in self.owners,
            "has several names (hard links)": plain and status.st_nlink != 1,
            "has set-user-ID or set-group-ID": plain and status.st_mode & 0o6000,
            f"more than {DEEPEST} folders deep": depth > DEEPEST,
        }
        self.refused += [f"{path}: {reason}" for reason, holds in reasons.items() if holds][:1]
        if any(reasons.values()):
            return
        self.correct(fd, path, self.action in ("repair-list", "repair"))
        if folder:
            inner = os.open(f"/proc/self/fd/{fd}", FOLDER & ~os.O_NOFOLLOW)
            try:
                self.walk(inner, mount, path + "/", depth + 1)
            finally:
                os.close(inner)


def gate(root, project, group, made):
    """Return a descriptor of the project's folder, which is made without access for anyone."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(project, 0o700, dir_fd=root)
    fd = os.open(project, FOLDER, dir_fd=root)
    if os.fstat(fd).st_uid != 0 or mount_of(fd) != mount_of(root):
        raise Refusal(f"The folder '{project}' is not root's, or is a mount: move it away.")
    if not made and os.listdir(fd):
        raise Refusal(f"The folder '{project}' exists, has files and is no project's.")
    if os.fstat(fd).st_gid != group:
        os.fchown(fd, -1, group)
    if not os.fstat(fd).st_mode & stat.S_ISGID:
        os.fchmod(fd, 0o2700)
    return fd


def may(uid, flags, folder):
    """Return whether a process of that user, with umask 077, can open the probe's file."""
    child = os.fork()
    if child == 0:
        with contextlib.suppress(OSError):
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(uid, uid, uid)
            os.open("file", flags, 0o666, dir_fd=folder)
            os._exit(0)
        os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def probe(root, group, only_clear=False):
    """Try a folder with the file of one user and four others, whose numbers no account has."""
    with contextlib.suppress(FileNotFoundError):  # of an interrupted call
        os.unlink(f"{PROBE}/file", dir_fd=root)
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(PROBE, dir_fd=root)
    if only_clear:
        return
    folder, (first, member, reader, other) = gate(root, PROBE, group, False), NUMBERS
    Work("make", {first: 7, member: 7, reader: 5}, (), False).correct(folder, "", True)
    may_all = [may(first, os.O_RDWR | os.O_CREAT, folder), may(member, os.O_RDWR, folder)]
    may_all.append(may(reader, os.O_RDONLY, folder))
    may_none = [may(reader, os.O_RDWR, folder), may(other, os.O_RDONLY, folder)]
    probe(root, group, only_clear=True)
    if not all(may_all) or any(may_none):
        raise Refusal(f"The file system does not follow its ACLs: {may_all}, {may_none}.")


def lock(states, name):
    """Wait until no other call has this lock; return its descriptor."""
    fd = os.open(name, os.O_RDWR | os.O_CREAT | FILE, 0o600, dir_fd=states)
    signal.alarm(PATIENCE)
    fcntl.flock(fd, fcntl.LOCK_EX)
    signal.alarm(LONGEST)  # the caller cannot end a process of root's
    return fd


def work_on(project, action):
    """Do what is asked; return the answer."""
    settings, service, group = read_settings()
    root, states = folder_at(settings["root"]), folder_at(settings["state"])
    answer = {"project": project, "action": action, "quota": quota_of(root)}
    if action == "probe":
        lock(states, PROBE + ".lock")
        probe(root, group)
        return answer
    # The gate never waits for a call that walks through a large folder.
    short = lock(states, project + ".lock")
    rights, _ = rights_of(project, settings, service)
    state = read_json(states, project + ".json", (0,)) or {"owners": [], "archived": False}
    if action != "make" and not state["owners"]:
        raise Refusal(f"Project '{project}' has no folder yet.")
    top = gate(root, project, group, bool(state["owners"]))
    if action in ("archive", "restore"):
        state["archived"] = action == "archive"
    # Before anyone can write a file, it is known who may own files here.
    state["owners"] = sorted({*state["owners"], *rights})
    write_json(states, project + ".json", state)
    Work("make", rights, (), state["archived"]).correct(top, "", True)
    os.close(short)
    lock(states, project + ".walk")
    rights, unknown = rights_of(project, settings, service)  # as they are by now
    state, listed = read_json(states, project + ".json", (0,)), None
    if action == "repair":
        listed = read_json(states, project + ".list", (0,), 1 << 28)
        if listed is None:
            raise Refusal("Nothing is listed: call repair-list, and read its answer first.")
        listed = {(path, number) for path, number in listed["changes"]}
    work = Work(action, rights, set(state["owners"]), state["archived"], listed)
    work.walk(top, mount_of(top))
    if action == "repair-list":
        write_json(states, project + ".list", {"changes": work.changes[:MOST_LISTED]})
    elif action == "repair":
        os.unlink(project + ".list", dir_fd=states)
    counts = {"unknown": unknown, "refused": work.refused, "changed": [p for p, _ in work.changes]}
    for key, names in counts.items():
        answer |= {key: names[:SHOWN], f"{key}_count": len(names)}
    return answer | {"archived": state["archived"]}


def late(*_):
    raise Refusal("Another call works on this project, or its folder is large: call again later.")


def main(words):
    """Return the exit status: 0 done, 2 wrong arguments, 3 refused."""
    if len(words) != 2 or words[1] not in ACTIONS or not re.fullmatch(PROJECT, words[0]):
        print("Usage: portal-project-folder PROJECT " + "|".join(ACTIONS), file=sys.stderr)
        return 2
    os.umask(0o077)
    signal.signal(signal.SIGALRM, late)
    try:
        print(json.dumps(work_on(*words)))
        return 0
    except (Refusal, KeyError) as error:  # KeyError: an account or a group of the settings
        reason = str(error.args[0])
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}. {WAYS.get(error.errno, '')}".rstrip()
    print(ascii(reason)[1:-1], file=sys.stderr)
    return 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
