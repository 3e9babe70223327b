"""Hostile listeners on another host (a network namespace), at addresses of a pair that is watched.

python -m tests.integration.remote_listener DIRECTORY prints as JSON, for each scheme, the bytes that the listener
received and the result of watching its address. Run it in a separate network namespace.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from activemq_fleet.node.probe.pair_watch import watch_which_address_answers

LISTENER = Path(__file__).parents[1] / "hostile_listener.py"
HERE, THERE = "198.51.100.1", "198.51.100.2"
PORT = 1883
XML = """<beans><!-- o: node a (preferred master) of pair o, release 5.18.3 -->
<broker><plugins><simpleAuthenticationPlugin><users>
<authenticationUser username="network" password="${activemq.network.password}" groups="activemq-network"/>
PROBE</users></simpleAuthenticationPlugin></plugins></broker></beans>"""
PROBE = '<authenticationUser username="activemq-probe" password="${activemq.probe.password}" groups="p"/>'
SECRETS = "activemq.network.password=N3tworkS3cret\nactivemq.probe.password=Pr0beS3cret\n"


def run_command(*words: str) -> None:
    completed = subprocess.run(words, check=False, capture_output=True, text=True)
    if completed.returncode:
        raise AssertionError(f"the command {' '.join(words)} failed: {completed.stderr}")


def deploy(base: Path, probe: str) -> str:
    """Write the files of a broker on this host, which contain the credentials; return the directory."""
    conf = base / "versions/v/conf"
    conf.mkdir(parents=True)
    (base / "data").mkdir()
    (base / "current").symlink_to("versions/v")
    (conf / "activemq.xml").write_text(XML.replace("PROBE", probe))
    (conf / "credentials.properties").write_text(SECRETS)
    return str(base)


def watch_hostile_listener(directory: Path, inside: list[str], case: dict[str, Any]) -> dict[str, Any]:
    """Watch an address of the other host with a hostile listener; return the received bytes and the result."""
    record = directory / f"{case['name']}.sent"
    pem = [str(directory / name) for name in case["pem"]]
    command = [*inside, sys.executable, str(LISTENER), THERE, str(PORT), str(record), "mqtt", *pem]
    listener = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert listener.stdout is not None
        assert listener.stdout.readline()
        watch_result = watch_which_address_answers(
            [f"{case['scheme']}://{THERE}:{PORT}"], deploy(directory / case["name"], case["probe"]), 2, 0.2, 5.0, None
        )
        time.sleep(0.3)
    finally:
        listener.kill()
        listener.communicate()
    return {
        "sent": record.read_bytes().decode("latin-1"),
        "trips": watch_result["trips"],
        "last": list(watch_result["last"].values()),
    }


def main() -> None:
    directory = Path(sys.argv[1])
    other_namespace = subprocess.Popen(["unshare", "--net", "sleep", "600"])
    inside = ["nsenter", f"--net=/proc/{other_namespace.pid}/ns/net"]
    try:
        while Path(f"/proc/{other_namespace.pid}/ns/net").readlink() == Path("/proc/self/ns/net").readlink():
            time.sleep(0.05)
        run_command(
            "ip", "link", "add", "here", "type", "veth", "peer", "name", "there", "netns", str(other_namespace.pid)
        )
        run_command("ip", "address", "add", f"{HERE}/24", "dev", "here")
        run_command("ip", "link", "set", "here", "up")
        run_command(*inside, "ip", "address", "add", f"{THERE}/24", "dev", "there")
        run_command(*inside, "ip", "link", "set", "there", "up")
        certificate = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=mallory.example.net"]
        keys = ["-keyout", str(directory / "key.pem"), "-out", str(directory / "certificate.pem")]
        run_command("openssl", "req", *certificate, *keys)
        pem = ["certificate.pem", "key.pem"]
        cases: list[dict[str, Any]] = [
            {"name": "tls", "scheme": "mqtt+nio+ssl", "pem": pem, "probe": PROBE},
            {"name": "tls-old", "scheme": "mqtt+ssl", "pem": pem, "probe": ""},
            {"name": "plain", "scheme": "mqtt+nio", "pem": [], "probe": PROBE},
            {"name": "plain-old", "scheme": "mqtt", "pem": [], "probe": ""},
        ]
        print(json.dumps({case["name"]: watch_hostile_listener(directory, inside, case) for case in cases}))
    finally:
        other_namespace.kill()
        other_namespace.wait()


if __name__ == "__main__":
    main()
