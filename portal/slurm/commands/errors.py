"""Errors of Slurm's commands, classified and turned into sentences.

The phrases are those of slurm_strerror (src/common/slurm_errno.c), which every command prints
after its own name, in Slurm 22.05 to 26.05.
"""

from __future__ import annotations

import re

from portal.errors import ConfigurationError, PortalError, SlurmRefused, SlurmUnavailable

# No answer, or an incomplete one: a later retry can help.
_UNAVAILABLE = re.compile(
    r"""unable\sto\scontact\sslurm
    | socket\stimed\sout | connection\s(refused|timed\sout|reset) | connect\sfailure
    # connect(2) and send(2) to a slurmctld that is killed at that moment.
    | endpoint\sis\snot\sconnected | software\scaused\sconnection\sabort | broken\spipe
    | connection\saborted | missing\ssocket | slurm_msg_sendto
    | communication\sconnection\sfailure | communications\s(connection|shutdown|receive|send)
    | zero\sbytes\swere\stransmitted | message\s(receive|send|connect)\sfailure
    | message\stimed\sout
    | backup\scontroller\s(is\s)?in\sstandby | in\sstandby\smode
    | unable\sto\s(establish|process)\sconfiguration | fetch_config | resolve_ctls_from_dns_srv
    | could\snot\sestablish\sa\sconfiguration
    | munge | authentication\s(plugin|error) | protocol\sauthentication
    | problem\stalking\sto\sthe\sdatabase | slurmdbd:.*(connect|refused|timed)
    | unable\sto\sconnect\sto\sdatabase
    | persistent\sconnection | no\sroute\sto\shost | network\sis\sunreachable
    | name\sor\sservice\snot\sknown | temporary\sfailure\sin\sname
    | resource\stemporarily\sunavailable | temporarily\sunable\sto\saccept
    | plugin\sinitialization\sfailed | host\sis\sdown
    # What scontrol hold and release say when slurmctld is away (22.05).
    | unexpected\smessage\sreceived""",
    re.IGNORECASE | re.VERBOSE,
)
_SUDO = re.compile(r"^sudo: (?!unable to resolve host)(.*)$|^Sorry, user .*", re.MULTILINE)
_PREFIX = re.compile(
    r"^(?:\[[^\]]*\]\s*)?[\w./-]+:\s+(?:(?:error|fatal|warning|info|lua):\s+)*", re.IGNORECASE
)
_NOISE = re.compile(r"^sudo: unable to resolve host")
_FAILED = re.compile(
    r"^(?:Batch job submission failed|Kill job error on job id \S+"
    r"|slurm_\w+ error|Unable to [^:]* job\S*|allocation failure):\s*"
)
_VERDICT = re.compile(
    r"^(?:sbatch: error: Batch job submission failed|allocation failure): (.*)$", re.MULTILINE
)
_UNSPECIFIED = "Unspecified error"  # of a plugin that has said why
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]+")
# Slurm's error alone does not tell people what to change.
_HINTS = {
    "Requested node configuration is not available": (
        "No node of this partition has the requested resources. Request fewer GPUs or CPUs, "
        "less memory, or another partition."
    ),
    "Invalid account or account/partition combination specified": (
        "This account is not allowed here. Choose another account or partition."
    ),
    "Invalid qos specification": "This QOS is not allowed with this account.",
    "Invalid job array specification": (
        "The array has more tasks than MaxArraySize in slurm.conf allows. Split it, or ask an "
        "admin to raise that limit."
    ),
    "Requested time limit is invalid (missing or exceeds some limit)": (
        "The time limit is longer than this partition allows."
    ),
}
_LONGEST = 600


def words_of(stderr: str) -> str:
    """Return Slurm's own message on one line, without command names and control characters."""
    messages: list[str] = []
    for line in stderr.splitlines():
        if _NOISE.match(line):
            continue
        text = _PREFIX.sub("", line.strip())
        text = _CONTROL.sub(" ", _FAILED.sub("", text)).strip().rstrip(".")
        if text and not any(message.startswith(text) for message in messages):
            messages.append(text)
    specific = [message for message in messages if message != _UNSPECIFIED]
    return "; ".join(specific or messages)[:_LONGEST]


def unavailable(stderr: str) -> bool:
    """Return True if the message says that Slurm does not answer, rather than that it refuses.

    If a line gives Slurm's own error, only that counts: the other lines may be a job_submit
    plugin's, in a site's own words ("Unable to charge this project").
    """
    verdicts = _VERDICT.findall(stderr)
    return bool(_UNAVAILABLE.search("\n".join(verdicts) if verdicts else stderr))


def error_of(command: str, stderr: str, returncode: int, user: str | None) -> PortalError:
    """Return the error for a command that exited with ``returncode`` (not 0) and ``stderr``."""
    refused = _SUDO.search(stderr)
    if refused and user is not None:
        message = words_of(refused[0])
        return ConfigurationError(
            f"The portal may not run '{command}' as {user}: sudo says \"{message}\". "
            "An administrator must install the portal's sudoers file."
        )
    message = words_of(stderr) or f"{command} exited with status {returncode} and no message"
    if returncode < 0:
        return SlurmUnavailable(f"'{command}' was killed by signal {-returncode}.")
    if unavailable(stderr):
        return SlurmUnavailable(f"Slurm does not answer: {message}.")
    hint = next((hint for phrase, hint in _HINTS.items() if phrase in message), "")
    return SlurmRefused(f"Slurm refused: {message}.{' ' + hint if hint else ''}")
