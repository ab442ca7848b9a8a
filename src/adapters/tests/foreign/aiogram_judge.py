"""aiogram logs in to the strict server: what it accepts and sends is what Telegram's own server would see."""
import asyncio, json, sys, urllib.request

from aiogram import Bot, Dispatcher, F
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.exceptions import TelegramBadRequest, TelegramForbiddenError, TelegramMigrateToChat, TelegramRetryAfter, TelegramUnauthorizedError
from aiogram.types import (BotCommand, BufferedInputFile, CallbackQuery, InlineKeyboardButton, InlineKeyboardMarkup,
                           InputMediaPhoto, Message, MessageEntity, ReactionTypeEmoji, ReplyParameters)

URL, TOKEN, GROUP, FORUM = sys.argv[1], sys.argv[2], -55, -1001000


def fake(what, body):
    request = urllib.request.Request(f"{URL}/_fake/{what}", json.dumps(body).encode(), {"content-type": "application/json"})
    return json.load(urllib.request.urlopen(request))


def bot(token):
    return Bot(token, session=AiohttpSession(api=TelegramAPIServer.from_base(URL)))


async def refused(kind, call):
    try:
        await call
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was expected")


async def main():
    wrong = bot("424242:another-token-token")
    await refused(TelegramUnauthorizedError, wrong.get_me())
    await wrong.session.close()

    me = bot(TOKEN)
    who = await me.get_me()
    assert (who.id, who.username) == (424242, "g2bot"), who
    await me.set_my_commands([BotCommand(command="help", description="what I can do")])
    assert (await me.get_my_commands())[0].command == "help"

    sent = await me.send_message(GROUP, "\U0001f600 bold", entities=[MessageEntity(type="bold", offset=3, length=4)],
                                 reply_markup=InlineKeyboardMarkup(inline_keyboard=[[InlineKeyboardButton(text="Yes", callback_data="y")]]))
    assert sent.entities[0].extract_from(sent.text) == "bold" and sent.reply_markup.inline_keyboard[0][0].callback_data == "y"
    error = await refused(TelegramBadRequest, me.send_message(GROUP, "\U0001f600", entities=[MessageEntity(type="bold", offset=1, length=1)]))
    assert "UTF-16" in str(error)
    await refused(TelegramBadRequest, me.send_message(GROUP, "x" * 4097))
    await refused(TelegramBadRequest, me.send_message(1, "chat not found"))

    photo = await me.send_photo(GROUP, BufferedInputFile(b"picture", "a.png"), caption="a picture",
                                caption_entities=[MessageEntity(type="italic", offset=2, length=7)])
    assert photo.photo[-1].file_size == 7 and photo.caption_entities[0].extract_from(photo.caption) == "picture"
    got = await me.download(photo.photo[-1].file_id)
    assert got.read() == b"picture"
    album = await me.send_media_group(GROUP, [InputMediaPhoto(media=BufferedInputFile(b"1", "1.png"), caption="two"),
                                              InputMediaPhoto(media=BufferedInputFile(b"2", "2.png"))])
    assert len(album) == 2 and album[0].media_group_id == album[1].media_group_id
    voice = await me.send_voice(GROUP, BufferedInputFile(b"OggS", "v.ogg"))
    assert voice.voice.duration == 1
    answer = await me.send_message(GROUP, "answer", reply_parameters=ReplyParameters(message_id=sent.message_id))
    assert answer.reply_to_message.text == sent.text
    await refused(TelegramBadRequest, me.send_message(GROUP, "x", reply_parameters=ReplyParameters(message_id=99999)))

    edited = await me.edit_message_text("changed", chat_id=GROUP, message_id=sent.message_id)
    assert edited.text == "changed" and edited.reply_markup is None and edited.edit_date
    error = await refused(TelegramBadRequest, me.edit_message_text("changed", chat_id=GROUP, message_id=sent.message_id))
    assert "message is not modified" in str(error)
    assert await me.set_message_reaction(GROUP, sent.message_id, [ReactionTypeEmoji(emoji="\U0001f440")])
    assert await me.delete_message(GROUP, answer.message_id)
    await refused(TelegramBadRequest, me.delete_message(GROUP, answer.message_id))

    topic = await me.send_message(FORUM, "topic", message_thread_id=42)
    assert topic.is_topic_message and topic.message_thread_id == 42
    await refused(TelegramBadRequest, me.send_message(FORUM, "general", message_thread_id=1))
    assert await me.send_chat_action(FORUM, "typing", message_thread_id=1)

    fake("fault", {"method": "sendMessage", "do": {"answer": {"status": 429, "body": {
        "ok": False, "error_code": 429, "description": "Too Many Requests: retry after 7", "parameters": {"retry_after": 7}}}}})
    assert (await refused(TelegramRetryAfter, me.send_message(GROUP, "x"))).retry_after == 7
    fake("chat", {"id": 77, "type": "private", "title": "Bob", "is_closed": True})
    await refused(TelegramForbiddenError, me.send_message(77, "x"))

    heard = []
    dispatcher = Dispatcher()

    @dispatcher.message(F.text)
    async def message(message: Message):
        heard.append(("message", message.text, message.chat.title))

    @dispatcher.callback_query()
    async def press(query: CallbackQuery):
        await query.answer("done")
        heard.append(("press", query.data, query.message.text))

    @dispatcher.message_reaction()
    async def reaction(reaction):
        heard.append(("reaction", reaction.new_reaction[0].emoji, reaction.chat.title))
        await dispatcher.stop_polling()

    ada = {"id": 12345, "is_bot": False, "first_name": "Ada"}
    fake("update", {"message": {"chat": {"id": GROUP}, "from": ada, "text": "hello"}})
    fake("update", {"callback_query": {"from": ada, "data": "y", "message": {
        "message_id": sent.message_id, "date": 1800000000, "chat": {"id": GROUP, "type": "group", "title": "Chess"}, "text": "changed"}}})
    polling = asyncio.create_task(dispatcher.start_polling(me, handle_signals=False, polling_timeout=1))
    while len(heard) < 2:
        await asyncio.sleep(0.01)
    # Told only once it was asked for: the polls name it.
    fake("update", {"message_reaction": {"chat": {"id": GROUP}, "message_id": sent.message_id, "user": ada, "date": 1800000000,
                                         "old_reaction": [], "new_reaction": [{"type": "emoji", "emoji": "\U0001f525"}]}})
    await asyncio.wait_for(polling, 30)
    assert heard == [("message", "hello", "Chess"), ("press", "y", "changed"), ("reaction", "\U0001f525", "Chess")], heard
    state = fake("state", {})
    # The last update may still be waiting for the poll that acknowledges it.
    assert state["presses"] == [] and state["unread"] <= 1, state

    me = bot(TOKEN)
    names = fake("rows", {"chat": GROUP})["rows"]
    rows = dict(zip(names, [update.message for update in await me.get_updates(timeout=0) if update.message], strict=True))
    kinds = {"live location": "location", "quiz": "poll", "paid media": "paid_media", "video chat begins": "video_chat_started",
             "video chat ends": "video_chat_ended", "link below a photo": "photo"}
    for name, message in rows.items():
        kind = kinds.get(name, name if message.text is None else "text")
        assert message.content_type == kind, (name, message.content_type)
    assert [rows[name].forward_origin.type for name in names[:4]] == ["user", "hidden_user", "chat", "channel"]
    assert rows["link"].entities[0].extract_from(rows["link"].text) == "this article"
    beside = rows["link below a photo"]
    assert beside.caption_entities[0].extract_from(beside.caption) == "read"
    assert rows["poll"].poll.allows_multiple_answers and rows["quiz"].poll.type == "quiz"
    assert [task.completed_by_user is None for task in rows["checklist"].checklist.tasks] == [True, False]
    assert [one.type for one in rows["paid media"].paid_media.paid_media] == ["preview", "photo", "video"]
    assert rows["answer to another chat"].external_reply.origin.type == "channel"
    assert rows["answer to another chat"].quote.text == "rain" and rows["answer to a story"].reply_to_story.id == 3

    fake("migrate", {"from": GROUP, "to": -1000077})
    assert (await refused(TelegramMigrateToChat, me.send_message(GROUP, "x"))).migrate_to_chat_id == -1000077
    await me.session.close()


asyncio.run(asyncio.wait_for(main(), 120))
print("aiogram: passed")
