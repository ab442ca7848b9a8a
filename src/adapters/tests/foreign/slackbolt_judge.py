"""Bolt, and the slack_sdk below it, against the Slack of the tests: BASE APP_TOKEN BOT_TOKEN. It ends with 0 if all was as it expects."""

import os
import sys
import threading
import traceback
import urllib.request

from slack_bolt import App
from slack_bolt.adapter.socket_mode import SocketModeHandler
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

base, app_token, bot_token = sys.argv[1:]
client = WebClient(token=bot_token, base_url=base + "/api/")
app = App(client=client, raise_error_for_unhandled_request=False)
me = client.auth_test()
assert (me["user_id"], me["bot_id"], me["team"]) == ("U900", "B900", "Home")


def checked(does):
    """A fault in an event ends the judge. Bolt calls listeners by the names of what they take."""

    def run(**given):
        try:
            does(given)
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    return run


def refused(word, call):
    try:
        call()
    except SlackApiError as error:
        assert error.response["error"] == word, error
    else:
        raise AssertionError(f"{word} was taken")


def on_message(event):
    if "subtype" in event:
        return
    text, channel = event["text"], event["channel"]
    if text == "bye":
        os._exit(0)
    if text.startswith("while"):
        client.chat_postMessage(channel=channel, text="heard: " + text)
        return
    assert text == "<@U900> hello" and event["channel_type"] == "channel"
    assert client.users_info(user=event["user"])["user"]["profile"]["display_name"] == "Ada"
    assert client.conversations_info(channel=channel)["channel"]["name"] == "general"
    listed = client.users_conversations(types="public_channel", limit=1)
    assert listed["channels"][0]["id"] == "C700" and listed["response_metadata"]["next_cursor"]
    button = {"type": "button", "action_id": "b1", "value": "yes", "text": {"type": "plain_text", "text": "Yes"}}
    section = {"type": "section", "text": {"type": "mrkdwn", "text": "card"}}
    client.chat_postMessage(channel=channel, text="card", blocks=[section, {"type": "actions", "elements": [button]}])
    keyed = {"event_type": "g2_message", "event_payload": {"key": "k.1"}}
    sent = client.chat_postMessage(channel=channel, text="keyed", metadata=keyed)
    found = client.conversations_history(channel=channel, include_all_metadata=True, limit=10)["messages"]
    assert [one["metadata"] for one in found if one["ts"] == sent["ts"]] == [keyed]
    assert "metadata" not in client.conversations_history(channel=channel, limit=1)["messages"][0]
    reply = client.chat_postMessage(channel=channel, text="below", thread_ts=event["ts"])
    below = client.conversations_replies(channel=channel, ts=event["ts"])["messages"]
    assert [one["text"] for one in below] == ["<@U900> hello", "below"] and below[0]["latest_reply"] == reply["ts"]
    client.reactions_add(channel=channel, timestamp=sent["ts"], name="eyes")
    refused("already_reacted", lambda: client.reactions_add(channel=channel, timestamp=sent["ts"], name="eyes"))
    signs = client.reactions_get(channel=channel, timestamp=sent["ts"], full=True)["message"]["reactions"]
    assert (signs[0]["name"], signs[0]["users"]) == ("eyes", ["U900"])
    client.reactions_remove(channel=channel, timestamp=sent["ts"], name="eyes")
    client.chat_delete(channel=channel, ts=sent["ts"])
    refused("message_not_found", lambda: client.chat_delete(channel=channel, ts=sent["ts"]))
    uploaded = client.files_upload_v2(channel=channel, content="\0\r\n--x", filename="a.bin", initial_comment="a file")
    info = client.files_info(file=uploaded["files"][0]["id"])["file"]
    request = urllib.request.Request(info["url_private_download"], headers={"Authorization": "Bearer " + bot_token})
    with urllib.request.urlopen(request) as answer:
        assert answer.read() == b"\0\r\n--x"
    assert info["shares"]["public"][channel][0]["ts"]
    refused("channel_not_found", lambda: client.chat_postMessage(channel="C12345", text="x"))
    refused("invalid_blocks", lambda: client.chat_postMessage(channel=channel, text="x", blocks=[{"type": "section", "text": {"type": "mrkdwn", "text": ""}}]))
    assert client.conversations_open(users="U101")["channel"]["id"] == "D101"
    answer = client.chat_postMessage(channel=channel, text="answer")
    client.chat_update(channel=channel, ts=answer["ts"], text="answer to Ada, changed")


def on_press(body, ack):
    assert (body["user"]["id"], body["actions"][0]["value"], body["message"]["text"]) == ("U100", "yes", "card")
    ack()
    client.chat_postEphemeral(channel=body["channel"]["id"], user=body["user"]["id"], text="only you")


app.event("message")(lambda event, body: checked(lambda _: on_message(event))())
app.action("b1")(lambda ack, body: checked(lambda _: on_press(body, ack))())
app.command("/g2")(lambda ack, command: ack(response_type="ephemeral", text="done: " + command["text"]))
handler = SocketModeHandler(app, app_token, web_client=WebClient(token=bot_token, base_url=base + "/api/"))
handler.connect()
client.chat_postMessage(channel="C700", text="ready")
threading.Event().wait()
