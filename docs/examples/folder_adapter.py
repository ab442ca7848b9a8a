#!/usr/bin/env python3
"""An adapter of G2 for a toy platform: a folder. It needs nothing but Python.

    FOLDER/in/CHAT/NAME.txt    a message in the chat CHAT, from the person who put the file there; read in the order of names
    FOLDER/in/CHAT/NAME        any other file: a message that is this file alone
    FOLDER/out/CHAT/KEY.txt    what G2 says there, and KEY-1-NAME, KEY-2-NAME the files that go with it

In g2.toml (with python3 and this file at their places):

    [channels.folder]
    command = ["/usr/bin/python3", "/opt/folder_adapter.py"]
    writes = ["/srv/toy"]
    folder = "/srv/toy"

docs/channel-protocol.md has the protocol.
"""
import json
import os
import re
import shutil
import sys
import threading
import time

VERSION = 1
MOST_OPEN = 64
LARGEST = 1 << 20
writing = threading.Lock()
places = threading.Semaphore(MOST_OPEN)  # events that are not stored yet


def tell(line):
    """Writes one line to G2. Nothing else is ever written to standard output."""
    with writing:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def watch(folder, prefix, cursor):
    """Tells each file of in/ once. G2 stores `cursor` with the event, and gives it back at the next start."""
    n = 0
    while True:
        root = os.path.join(folder, "in")
        for chat in sorted(os.listdir(root)):
            for name in sorted(os.listdir(os.path.join(root, chat))):
                if name.endswith(".part") or name <= cursor.get(chat, ""):
                    continue
                path = os.path.join(root, chat, name)
                text, files = "", []
                if name.endswith(".txt"):
                    with open(path, encoding="utf-8", errors="replace") as file:
                        text = file.read(100_000)
                else:
                    kind = "voice" if name.endswith(".ogg") else "document"
                    files = [{"kind": kind, "name": name, "bytes": os.path.getsize(path), "fetch": path}]
                places.acquire()
                n += 1
                cursor[chat] = name
                tell({
                    "is": "event", "n": n, "key": name, "cursor": {chat: name}, "kind": "message",
                    "chat": f"{prefix}:{chat}", "id": name, "text": text, "attachments": files,
                    "from": {"id": str(os.stat(path).st_uid), "name": "somebody"},
                })
        time.sleep(0.2)


def send(folder, prefix, spool, order):
    """Writes a text down under its key, with its files: the same key again is the same file, so nothing is said twice."""
    chat = order["chat"].removeprefix(prefix + ":")
    place = os.path.join(folder, "out", chat)
    if order["chat"] == chat or not re.fullmatch(r"[\w-]+", chat) or not os.path.isdir(os.path.join(folder, "in", chat)):
        return {"not": {"why": "gone", "text": f"there is no chat {order['chat']}"}}
    name = re.sub(r"[^\w.]", "_", order["key"])
    try:
        os.makedirs(place, exist_ok=True)
        for n, file in enumerate(order.get("attachments", []), 1):
            called = re.sub(r"[^\w.]", "_", file["name"])
            shutil.copyfile(os.path.join(spool, file["file"]), os.path.join(place, f"{name}-{n}-{called}"))
        with open(os.path.join(place, name + ".txt"), "w", encoding="utf-8") as file:
            file.write(order["text"])
    except OSError as error:
        return {"not": {"why": "again", "text": str(error)}}
    return {"ids": [name]}


def chats(folder, prefix):
    """Lists the chats. G2 asks for them once a day, and when an agent or a person wants it."""
    return [{"chat": f"{prefix}:{chat}", "name": chat} for chat in sorted(os.listdir(os.path.join(folder, "in")))]


def fetch(spool, order):
    """Copies a file into the spool. G2 asks for those alone whose message somebody hears, in the words of the event."""
    place = f"in/{order['r']}"
    try:
        if os.path.getsize(order["what"]) > order["most"]:
            return {"problem": "it is too large"}
        shutil.copyfile(order["what"], os.path.join(spool, place))
    except OSError as error:
        return {"problem": error.strerror}
    return {"file": place}


def main():
    start = json.loads(sys.stdin.readline())
    if start.get("op") != "start" or start.get("v") != VERSION:
        sys.exit(f"G2 speaks version {start.get('v')} of the protocol, and this adapter {VERSION}")
    folder, prefix = start["config"].get("folder", ""), start["prefix"]
    if not os.path.isdir(os.path.join(folder, "in")):
        tell({"is": "state", "transport": "refused", "why": f"{folder}/in is no folder", "hint": "make it"})
        sys.exit(1)
    tell({
        "is": "hello", "v": VERSION, "adapter": "folder 1", "self": {"id": f"{prefix}:g2", "name": "G2"},
        "text": {"max": 4000, "unit": "chars", "format": "plain"}, "sent_twice": {"how": "key"},
        "can": ["media_in", "media_out", "list_chats"],
        "media": {"out_max": LARGEST, "in_max": LARGEST, "together": 4}, "caption_max": 4000,
    })
    tell({"is": "state", "transport": "ok", "inbound": "ok", "outbound": "ok"})
    threading.Thread(target=watch, args=(folder, prefix, dict(start["cursor"])), daemon=True).start()
    for line in sys.stdin:
        try:
            order = json.loads(line)
            op, r = order.get("op"), order.get("r")
        except (ValueError, AttributeError):
            continue
        if op == "took":
            places.release()
        elif op == "send":
            tell({"is": "done", "r": r, **send(folder, prefix, start["spool"], order)})
        elif op == "amend":
            tell({"is": "done", "r": r, "not": {"why": "refused", "text": "files stay as they are"}})
        elif op == "look_for":
            tell({"is": "found", "r": r, "cannot_tell": "a text of the same key is the same file"})
        elif op == "open_dm":
            tell({"is": "chat_of", "r": r, "why": "a folder has no chats with one person"})
        elif op == "list_chats":
            tell({"is": "chats", "r": r, "chats": chats(folder, prefix)})
        elif op == "fetch":
            tell({"is": "fetched", "r": r, **fetch(start["spool"], order)})
        elif op == "ping":
            tell({"is": "pong", "r": r})
        elif op == "stop":
            break


main()
