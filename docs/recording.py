"""Drives g2 in a terminal of its own and writes down what is shown, as an asciicast of version 2."""

import fcntl
import json
import os
import pty
import select
import shutil
import signal
import struct
import sys
import tempfile
import termios
import time

COLUMNS, ROWS = 100, 30
PROMPT = "\x1b[1m$\x1b[0m "
# How long anything may take, and how long a pause is at most in the recording, seconds.
PATIENCE, LONGEST_PAUSE = 60, 1.2
CTRL_D = "\x04"

# What is typed, and what has to be on the screen then. Keys without an end of line are typed into what runs.
STORY = [
    ("g2 up\n", "main"),
    ("hello\n", "echo: hello"),
    (CTRL_D, PROMPT),
    ("g2 serve 2> g2.log &\n", PROMPT),
    ("g2 status --wait 30\n", PROMPT),
    ('g2 tasks add --group main --cron "0 9 * * *" "say good morning"\n', PROMPT),
    ("g2 tasks calendar\n", PROMPT),
    ('g2 send --wait 30 "will it rain?"\n', "echo: will it rain?"),
    ("g2 ps\n", "main"),
    ("g2 why\n", "answered"),
    ("g2 top\n", "main"),
    ("q", PROMPT),
    ("g2 stop\n", "the daemon has stopped"),
]


class Screen:
    """A terminal, and what was shown in it."""

    def __init__(self, program, environment, home):
        self.events, self.clock, self.text, self.seen = [], 0.0, "", 0
        self.child, self.ours = pty.fork()
        if self.child == 0:
            os.chdir(home)
            os.execve(program[0], program, environment)
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.last = time.monotonic()
        self.rest = b""

    def read(self, wait):
        """Reads what is shown within `wait` seconds; returns whether there was something."""
        if not select.select([self.ours], [], [], wait)[0]:
            return False
        try:
            read = os.read(self.ours, 65536)
        except OSError:
            read = b""
        if not read:
            raise SystemExit("the shell has ended")
        whole = self.rest + read
        text = whole.decode("utf-8", "ignore")
        self.rest = whole[len(text.encode()):] if len(text.encode()) <= len(whole) else b""
        now = time.monotonic()
        self.clock += min(now - self.last, LONGEST_PAUSE)
        self.last = now
        self.events.append((self.clock, text))
        self.text += text
        return True

    def until(self, words):
        """Reads on until these words are shown behind what was seen before, and then nothing more for a moment."""
        end = time.monotonic() + PATIENCE
        while (at := self.text.find(words, self.seen)) < 0:
            if time.monotonic() > end:
                raise SystemExit(f"{words!r} was not shown:\n{self.text[self.seen:]}")
            self.read(0.2)
        self.seen = at + len(words)
        while self.read(0.3) and time.monotonic() < end:
            pass

    def type(self, keys):
        for key in keys:
            os.write(self.ours, key.encode())
            self.read(0.05)


def main(path):
    home = tempfile.mkdtemp(prefix="g2-recording-")
    environment = {
        "HOME": home,
        "G2_ROOT": os.path.join(home, "g2"),
        "PATH": os.environ["G2_BIN"] + ":/usr/bin:/bin",
        # The built-in agent answers as a plain process, whatever this machine has.
        "DOCKER_HOST": "unix:///nowhere/docker.sock",
        "PS1": PROMPT,
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
    }
    screen = Screen(["/bin/bash", "--norc", "--noprofile", "--noediting", "+m"], environment, home)
    try:
        screen.until(PROMPT)
        for keys, words in STORY:
            screen.seen = len(screen.text)
            screen.type(keys)
            screen.until(words)
            screen.clock += LONGEST_PAUSE
    finally:
        os.kill(screen.child, signal.SIGKILL)
        os.waitpid(screen.child, 0)
        os.close(screen.ours)
        os.system(f"G2_ROOT='{home}/g2' '{os.environ['G2_BIN']}/g2' stop > /dev/null 2>&1")
        shutil.rmtree(home, ignore_errors=True)
    head = {"version": 2, "width": COLUMNS, "height": ROWS, "title": "G2: a first quarter of an hour"}
    with open(path + ".new", "w", encoding="utf-8") as cast:
        cast.write(json.dumps(head) + "\n")
        for at, text in screen.events:
            text = text.replace(home, "~")
            cast.write(json.dumps([round(at, 3), "o", text], ensure_ascii=False) + "\n")
    os.replace(path + ".new", path)


main(sys.argv[1])
