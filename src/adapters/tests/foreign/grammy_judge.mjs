// grammY logs in to the strict server: URL TOKEN, in the folder of Node packages.
import { strict as assert } from "node:assert";
import { createRequire } from "node:module";

const { Api, Bot, GrammyError, InputFile, InputMediaBuilder } = createRequire(`${process.cwd()}/`)("grammy");
const [URL_, TOKEN] = process.argv.slice(2);
const [GROUP, FORUM] = [-55, -1001000];
const client = { apiRoot: URL_ };

async function fake(what, body) {
  const answer = await fetch(`${URL_}/_fake/${what}`, { method: "POST", body: JSON.stringify(body) });
  return answer.json();
}

async function refused(call, code, words) {
  const error = await call.then(() => null, (error) => error);
  assert(error instanceof GrammyError, `it was done, or failed otherwise: ${error}`);
  assert.equal(error.error_code, code);
  assert(error.description.includes(words), error.description);
  return error;
}

await refused(new Api("424242:another-token-token", client).getMe(), 401, "Unauthorized");
const bot = new Bot(TOKEN, { client });
await bot.init();
assert.equal(bot.botInfo.id, 424242);
assert.equal(bot.botInfo.username, "g2bot");
const api = bot.api;
await api.setMyCommands([{ command: "help", description: "what I can do" }]);
assert.equal((await api.getMyCommands())[0].command, "help");

const sent = await api.sendMessage(GROUP, "😀 bold", {
  entities: [{ type: "bold", offset: 3, length: 4 }],
  reply_markup: { inline_keyboard: [[{ text: "Yes", callback_data: "y" }]] },
});
const { offset, length } = sent.entities[0];
assert.equal(sent.text.slice(offset, offset + length), "bold");
assert.equal(sent.reply_markup.inline_keyboard[0][0].callback_data, "y");
await refused(api.sendMessage(GROUP, "😀", { entities: [{ type: "bold", offset: 1, length: 1 }] }), 400, "UTF-16");
await refused(api.sendMessage(GROUP, "x".repeat(4097)), 400, "too long");
await refused(api.sendMessage(1, "x"), 400, "chat not found");

const photo = await api.sendPhoto(GROUP, new InputFile(Buffer.from("picture"), "a.png"), { caption: "a picture" });
const file = await api.getFile(photo.photo.at(-1).file_id);
const got = await fetch(`${URL_}/file/bot${TOKEN}/${file.file_path}`);
assert.equal(await got.text(), "picture");
const album = await api.sendMediaGroup(GROUP, [
  InputMediaBuilder.photo(new InputFile(Buffer.from("1"), "1.png"), { caption: "two" }),
  InputMediaBuilder.photo(new InputFile(Buffer.from("2"), "2.png")),
]);
assert.equal(album[0].media_group_id, album[1].media_group_id);
const answer = await api.sendMessage(GROUP, "answer", { reply_parameters: { message_id: sent.message_id } });
assert.equal(answer.reply_to_message.text, sent.text);
await refused(api.sendMessage(GROUP, "x", { reply_parameters: { message_id: 99999 } }), 400, "not found");

const edited = await api.editMessageText(GROUP, sent.message_id, "changed");
assert.equal(edited.text, "changed");
assert.equal(edited.reply_markup, undefined);
await refused(api.editMessageText(GROUP, sent.message_id, "changed"), 400, "not modified");
assert(await api.setMessageReaction(GROUP, sent.message_id, [{ type: "emoji", emoji: "👀" }]));
assert(await api.deleteMessage(GROUP, answer.message_id));
await refused(api.deleteMessage(GROUP, answer.message_id), 400, "not found");

const topic = await api.sendMessage(FORUM, "topic", { message_thread_id: 42 });
assert(topic.is_topic_message);
await refused(api.sendMessage(FORUM, "general", { message_thread_id: 1 }), 400, "thread not found");
assert(await api.sendChatAction(FORUM, "typing", { message_thread_id: 1 }));

const slow = { ok: false, error_code: 429, description: "Too Many Requests: retry after 7", parameters: { retry_after: 7 } };
await fake("fault", { method: "sendMessage", do: { answer: { status: 429, body: slow } } });
assert.equal((await refused(api.sendMessage(GROUP, "x"), 429, "retry")).parameters.retry_after, 7);

const heard = [];
bot.on("message:text", (ctx) => heard.push(["message", ctx.msg.text, ctx.chat.title]));
bot.on("callback_query:data", async (ctx) => {
  await ctx.answerCallbackQuery("done");
  heard.push(["press", ctx.callbackQuery.data, ctx.callbackQuery.message.text]);
  // Told only once it was asked for: the polls name it.
  await fake("update", { message_reaction: {
    chat: { id: GROUP }, message_id: sent.message_id, user: ada, date: 1800000000,
    old_reaction: [], new_reaction: [{ type: "emoji", emoji: "🔥" }],
  } });
});
bot.on("message_reaction", async (ctx) => {
  heard.push(["reaction", ctx.messageReaction.new_reaction[0].emoji, ctx.chat.title]);
  await bot.stop();
});
bot.catch((error) => { throw error.error; });
const ada = { id: 12345, is_bot: false, first_name: "Ada" };
await fake("update", { message: { chat: { id: GROUP }, from: ada, text: "hello" } });
await fake("update", { callback_query: { from: ada, data: "y", message: {
  message_id: sent.message_id, date: 1800000000, chat: { id: GROUP, type: "group", title: "Chess" }, text: "changed",
} } });
await bot.start({ allowed_updates: ["message", "callback_query", "message_reaction"] });
assert.deepEqual(heard, [["message", "hello", "Chess"], ["press", "y", "changed"], ["reaction", "🔥", "Chess"]]);
// Its end acknowledges the last one.
const state = await fake("state", {});
assert.deepEqual([state.presses, state.unread], [[], 0]);

await fake("migrate", { from: GROUP, to: -1000077 });
const moved = await refused(api.sendMessage(GROUP, "x"), 400, "upgraded");
assert.equal(moved.parameters.migrate_to_chat_id, -1000077);
