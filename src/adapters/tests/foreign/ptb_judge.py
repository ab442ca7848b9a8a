"""python-telegram-bot logs in to the strict server: what it accepts and sends is what Telegram's own server would see."""
import asyncio, json, sys, urllib.request

from telegram import (Bot, BotCommand, InlineKeyboardButton, InlineKeyboardMarkup, InputMediaPhoto, MessageEntity,
                      ReactionTypeEmoji, ReplyParameters, Update)
from telegram.error import BadRequest, ChatMigrated, Conflict, Forbidden, InvalidToken, RetryAfter
from telegram.ext import Application, CallbackQueryHandler, MessageHandler, MessageReactionHandler, filters

URL, TOKEN, GROUP, FORUM = sys.argv[1], sys.argv[2], -55, -1001000


def fake(what, body):
    request = urllib.request.Request(f"{URL}/_fake/{what}", json.dumps(body).encode(), {"content-type": "application/json"})
    return json.load(urllib.request.urlopen(request))


def bot(token):
    return Bot(token, base_url=f"{URL}/bot", base_file_url=f"{URL}/file/bot")


async def refused(kind, call):
    try:
        await call
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was expected")


async def main():
    await refused(InvalidToken, bot("424242:another-token-token").initialize())
    async with bot(TOKEN) as me:
        assert (me.id, me.username) == (424242, "g2bot")
        await me.set_my_commands([BotCommand("help", "what I can do")])
        assert (await me.get_my_commands())[0].command == "help"

        sent = await me.send_message(GROUP, "\U0001f600 bold", entities=[MessageEntity(MessageEntity.BOLD, 3, 4)],
                                     reply_markup=InlineKeyboardMarkup([[InlineKeyboardButton("Yes", callback_data="y")]]))
        assert sent.parse_entity(sent.entities[0]) == "bold"
        error = await refused(BadRequest, me.send_message(GROUP, "\U0001f600", entities=[MessageEntity(MessageEntity.BOLD, 1, 1)]))
        assert "middle of a" in str(error), error
        await refused(BadRequest, me.send_message(GROUP, "x" * 4097))

        photo = await me.send_photo(GROUP, b"picture", caption="a picture", caption_entities=[MessageEntity(MessageEntity.ITALIC, 2, 7)])
        assert photo.photo[-1].file_size == 7
        got = await (await photo.photo[-1].get_file()).download_as_bytearray()
        assert got == b"picture"
        album = await me.send_media_group(GROUP, [InputMediaPhoto(b"1", caption="two"), InputMediaPhoto(b"2")])
        assert len(album) == 2 and album[0].media_group_id == album[1].media_group_id
        document = await me.send_document(GROUP, b"text", filename="a.txt")
        assert document.document.file_name == "a.txt"
        answer = await me.send_message(GROUP, "answer", reply_parameters=ReplyParameters(sent.message_id))
        assert answer.reply_to_message.text == sent.text

        edited = await me.edit_message_text("changed", GROUP, sent.message_id)
        assert edited.text == "changed" and edited.reply_markup is None
        error = await refused(BadRequest, me.edit_message_text("changed", GROUP, sent.message_id))
        assert "not modified" in str(error)
        assert await me.set_message_reaction(GROUP, sent.message_id, [ReactionTypeEmoji("\U0001f440")])
        await refused(BadRequest, me.set_message_reaction(GROUP, sent.message_id, [ReactionTypeEmoji("\U0001f980")]))
        assert await me.delete_message(GROUP, answer.message_id)

        topic = await me.send_message(FORUM, "topic", message_thread_id=42)
        assert topic.is_topic_message
        await refused(BadRequest, me.send_message(FORUM, "general", message_thread_id=1))
        assert await me.send_chat_action(FORUM, "typing", message_thread_id=1)

        fake("fault", {"method": "sendMessage", "do": {"answer": {"status": 429, "body": {
            "ok": False, "error_code": 429, "description": "Too Many Requests: retry after 7", "parameters": {"retry_after": 7}}}}})
        await refused(RetryAfter, me.send_message(GROUP, "x"))
        fake("chat", {"id": 77, "type": "private", "title": "Bob", "is_closed": True})
        await refused(Forbidden, me.send_message(77, "x"))

        # Two polls: the older one is ended.
        older = asyncio.create_task(me.get_updates(timeout=20))
        async with bot(TOKEN) as other:
            while not [call for call in fake("state", {})["calls"] if call["method"] == "getUpdates"]:
                await asyncio.sleep(0.01)
            await other.get_updates(timeout=0)
        await refused(Conflict, older)

    heard, done = [], asyncio.Event()
    app = Application.builder().token(TOKEN).base_url(f"{URL}/bot").base_file_url(f"{URL}/file/bot").build()

    async def message(update: Update, _):
        heard.append(("message", update.message.text, update.effective_chat.title))

    async def press(update: Update, _):
        await update.callback_query.answer("done")
        heard.append(("press", update.callback_query.data, update.callback_query.message.text))

    async def reaction(update: Update, _):
        heard.append(("reaction", update.message_reaction.new_reaction[0].emoji, update.effective_chat.title))
        done.set()

    app.add_handlers([MessageHandler(filters.TEXT, message), CallbackQueryHandler(press), MessageReactionHandler(reaction)])
    ada = {"id": 12345, "is_bot": False, "first_name": "Ada"}
    fake("update", {"message": {"chat": {"id": GROUP}, "from": ada, "text": "hello"}})
    fake("update", {"callback_query": {"from": ada, "data": "y", "message": {
        "message_id": sent.message_id, "date": 1800000000, "chat": {"id": GROUP, "type": "group", "title": "Chess"}, "text": "changed"}}})
    async with app:
        await app.start()
        await app.updater.start_polling(allowed_updates=Update.ALL_TYPES)
        while len(heard) < 2:
            await asyncio.sleep(0.01)
        fake("update", {"message_reaction": {"chat": {"id": GROUP}, "message_id": sent.message_id, "user": ada, "date": 1800000000,
                                             "old_reaction": [], "new_reaction": [{"type": "emoji", "emoji": "\U0001f525"}]}})
        await asyncio.wait_for(done.wait(), 30)
        await app.updater.stop()
        await app.stop()
    assert heard == [("message", "hello", "Chess"), ("press", "y", "changed"), ("reaction", "\U0001f525", "Chess")], heard
    state = fake("state", {})
    # The last update may still be waiting for the poll that acknowledges it.
    assert state["presses"] == [] and state["unread"] <= 1, state

    names = fake("rows", {"chat": GROUP})["rows"]
    async with bot(TOKEN) as me:
        rows = dict(zip(names, [update.message for update in await me.get_updates(timeout=0) if update.message], strict=True))
    assert rows["link"].parse_entities(["text_link"]).popitem()[1] == "this article"
    assert [option.text for option in rows["poll"].poll.options] == ["Yes", "No"]
    assert rows["forward of a channel"].forward_origin.author_signature == "Ada"
    assert rows["answer to a part"].quote.text == "at nine" and rows["live location"].location.live_period

    fake("migrate", {"from": GROUP, "to": -1000077})
    async with bot(TOKEN) as me:
        assert (await refused(ChatMigrated, me.send_message(GROUP, "x"))).new_chat_id == -1000077


asyncio.run(asyncio.wait_for(main(), 120))
print("python-telegram-bot: passed")
