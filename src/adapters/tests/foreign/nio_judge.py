"""matrix-nio in a room with the adapter's bot: HOMESERVER USER PASSWORD BOT. It ends with 0 if all was as it expects."""
import asyncio, io, sys

from nio import (AsyncClient, AsyncClientConfig, DownloadResponse, JoinedMembersResponse, LoginResponse, ReactionEvent, RedactionEvent,
                 RoomCreateResponse, RoomMemberEvent, RoomMessageImage, RoomMessageText, RoomSendResponse, TypingNoticeEvent,
                 UploadResponse)

SERVER, USER, PASSWORD, BOT = sys.argv[1:]


def fine(answer, kind):
    assert isinstance(answer, kind), answer
    return answer


async def main():
    client = AsyncClient(SERVER, USER, config=AsyncClientConfig(encryption_enabled=False))
    fine(await client.login(PASSWORD), LoginResponse)
    events, typing = asyncio.Queue(), asyncio.Queue()

    async def happened(room, event):
        if event.sender == BOT:
            await events.put(event)

    async def types(room, event):
        if BOT in event.users:
            await typing.put(event)

    client.add_event_callback(happened, (ReactionEvent, RedactionEvent, RoomMemberEvent, RoomMessageImage, RoomMessageText))
    client.add_ephemeral_callback(types, TypingNoticeEvent)
    syncing = asyncio.create_task(client.sync_forever(timeout=30_000, full_state=True))

    async def next_of(kind, queue=events):
        event = await asyncio.wait_for(queue.get(), 60)
        assert isinstance(event, kind), event
        return event

    async def send(kind, content):
        return fine(await client.room_send(room, kind, content), RoomSendResponse).event_id

    room = fine(await client.room_create(name="With nio", invite=[BOT]), RoomCreateResponse).room_id
    while (await next_of(RoomMemberEvent)).membership != "join":
        pass
    members = fine(await client.joined_members(room), JoinedMembersResponse).members
    assert {member.user_id for member in members} == {USER, BOT}, members
    hello = await send("m.room.message", {"msgtype": "m.text", "body": "hello", "m.mentions": {"user_ids": [BOT]}})

    said = await next_of(RoomMessageText)
    assert (said.body, said.formatted_body, said.format) == ("hi 🎈", "<b>hi</b> 🎈", "org.matrix.custom.html"), said
    assert said.source["content"]["m.relates_to"] == {"m.in_reply_to": {"event_id": hello}}, said.source
    assert client.rooms[room].users[BOT] and not client.rooms[room].encrypted
    await send("m.reaction", {"m.relates_to": {"rel_type": "m.annotation", "event_id": said.event_id, "key": "👍"}})

    edit = (await next_of(RoomMessageText)).source["content"]
    assert edit["m.new_content"]["body"] == "changed" and edit["m.relates_to"] == {"rel_type": "m.replace", "event_id": said.event_id}, edit
    answer, _ = await client.upload(lambda *_: io.BytesIO(b"a picture"), "image/png", "a.png", filesize=9)
    uploaded = fine(answer, UploadResponse).content_uri
    await send("m.room.message", {"msgtype": "m.image", "body": "a.png", "url": uploaded, "info": {"mimetype": "image/png", "size": 9}})

    image = await next_of(RoomMessageImage)
    assert image.source["content"]["info"]["mimetype"] == "image/png" and image.body == "here", image.source
    assert fine(await client.download(image.url), DownloadResponse).body == b"a picture of ours"
    sign = await next_of(ReactionEvent)
    assert (sign.key, sign.reacts_to) == ("👀", hello), sign
    inside = await next_of(RoomMessageText)
    about = inside.source["content"]["m.relates_to"]
    assert (about["rel_type"], about["event_id"], inside.body) == ("m.thread", hello, "inside"), about
    await next_of(TypingNoticeEvent, typing)
    await client.room_redact(room, hello)

    gone = await next_of(RedactionEvent)
    assert gone.redacts == said.event_id, gone
    await client.room_kick(room, BOT)
    syncing.cancel()
    await client.close()


asyncio.run(asyncio.wait_for(main(), 240))
