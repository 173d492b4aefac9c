#!/usr/bin/env bash
# What: fish 3.6.0 (Debian packages fish and fish-common 3.6.0-3.1+deb12u1), $status after Ctrl-C.
# Expected: a loop that Ctrl-C breaks off leaves 130 (128 + SIGINT), as a program does and as the same loop does in bash.
# Instead: $status is 0 where Ctrl-C came between two commands of the loop: it counts as done. Where it came while a
#   program ran in it, and behind a program alone, it is 130.
# Seen:
#   while true; end -> 0
#   while true; sleep 60; end -> 130
#   sleep 60 -> 130
# When it matters: whoever tells by the status whether what ran in a shell came to its end takes a loop that a person or a
#   time-out broke off for a success, and `loop; and deploy` on the next line goes on.
# Wants apt-get, a Debian that has this version, and python3; no root.
set -euo pipefail

version=3.6.0-3.1+deb12u1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq -o APT::Sandbox::User= "fish=$version" "fish-common=$version"
for package in fish*.deb; do dpkg -x "$package" .; done

cat >trial.py <<'TRIAL'
import os, pty, re, select, signal, time

pid, terminal = pty.fork()
if pid == 0:
    os.execve("usr/bin/fish", ["fish", "--no-config"], {"HOME": os.getcwd(), "PATH": "/usr/bin:/bin", "TERM": "dumb"})


def until(pattern):
    text, end = b"", time.monotonic() + 10
    while not re.search(pattern, text):
        left = end - time.monotonic()
        if left <= 0 or not select.select([terminal], [], [], left)[0]:
            raise SystemExit(f"{pattern} did not come: {text!r}")
        text += os.read(terminal, 65536)
    return re.search(pattern, text)


until(rb"[>#] ")
for command in ("while true; end", "while true; sleep 60; end", "sleep 60"):
    os.write(terminal, f"echo be''gun; {command}\r".encode())
    until(rb"begun\r?\n")
    time.sleep(0.5)
    os.write(terminal, b"\x03")
    until(rb"\^C")
    os.write(terminal, b"echo sta''tus $status.\r")
    print(command, "->", until(rb"status (\d+)\.")[1].decode())
os.kill(pid, signal.SIGKILL)
TRIAL
timeout 50 python3 trial.py | tee seen

diff - seen <<'EXPECTED'
while true; end -> 0
while true; sleep 60; end -> 130
sleep 60 -> 130
EXPECTED
echo "as stated: fish $version"
