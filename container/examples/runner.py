#!/usr/bin/env python3
"""A runner in one file, for protocol 2: its agent says each message back. Write your agent's call into `agent`."""
import json, os, pathlib, sys, time

IPC = pathlib.Path(os.environ.get("G2_IPC_DIR", "/workspace/ipc"))
INPUT, HEARTBEAT = IPC / "input", IPC / "state" / "heartbeat"
seq = 0


def record(**fields):
    """One write, so that nothing comes between the markers; JSON in ASCII."""
    global seq
    seq += 1
    line = json.dumps({"status": "success", "result": None, **fields, "seq": seq})
    sys.stdout.write(f"---G2_OUTPUT_START---\n{line}\n---G2_OUTPUT_END---\n")
    sys.stdout.flush()


def agent(prompt):
    HEARTBEAT.touch()  # a sign of life: also while tools run
    return "heard: " + prompt.strip()[-200:]


def turn(prompt, batch):
    record(result=agent(prompt), handled=[batch] if batch else [])


def follow_ups(taken):
    """Takes what waits, numeric ids in order. A rename decides between the host and us."""
    names = [path for path in INPUT.glob("*.json") if not path.name.startswith(".")]
    for path in sorted(names, key=lambda path: (not path.stem.isdigit(), int(path.stem) if path.stem.isdigit() else 0)):
        if path.stem in taken:
            path.unlink(missing_ok=True)
            continue
        try:
            text = json.loads(path.read_text())["text"]
            claimed = path.rename(path.with_suffix(".claimed"))
        except FileNotFoundError:
            continue  # the host has taken it back
        except (ValueError, KeyError, TypeError, OSError) as error:
            path.rename(f"{path}.bad")
            record(type="progress", result=f"{path.name} can't be used: {error}")
            continue
        taken.add(path.stem)
        turn(text, path.stem)
        claimed.unlink()


def main():
    launch = json.load(sys.stdin)
    close = INPUT / "_close"
    close.unlink(missing_ok=True)  # of an earlier life
    record(type="ready", protocol=2)
    batch = launch.get("batchId", "")
    turn(launch["prompt"], batch)
    taken = {batch}
    while not close.exists():
        follow_ups(taken)
        time.sleep(0.05)
    close.unlink(missing_ok=True)


try:
    main()
except Exception as error:
    record(status="error", error=str(error))
    sys.exit(1)
