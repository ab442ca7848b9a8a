// discord.js against the Discord of the tests: BASE GATEWAY TOKEN, in the folder of Node packages.
import { strict as assert } from "node:assert";
import { createRequire } from "node:module";

const { ActionRowBuilder, ButtonBuilder, ButtonStyle, Client, Events, GatewayIntentBits, MessageFlags } =
  createRequire(`${process.cwd()}/`)("discord.js");
const [BASE, , TOKEN] = process.argv.slice(2);
const { Guilds, GuildMessages, GuildMessageReactions, MessageContent } = GatewayIntentBits;
const client = new Client({
  intents: [Guilds, GuildMessages, GuildMessageReactions, MessageContent],
  rest: { api: `${BASE}/api`, retries: 0 },
});
const resumed = new Promise((resolve) => client.once(Events.ShardResume, resolve));

async function refused(call, code) {
  const error = await call.then(() => null, (error) => error);
  assert.equal(error?.code, code, `${error}`);
}

client.once(Events.ClientReady, async () => {
  const channel = client.channels.cache.get("700");
  assert.deepEqual([client.user.id, channel.guild.name, channel.name], ["900", "Home", "general"]);
  await channel.send({ content: "ready", nonce: "a.1", enforceNonce: true });
});

const rows = [];
client.on(Events.MessageCreate, async (message) => {
  const { author, channel, content, mentions } = message;
  if (author.id === client.user.id) return;
  if (channel.id === "701") {
    rows.push(message);
    if (content !== "that is all") return;
    const [, forward, comment, , role, , poll, sticker] = rows;
    assert.equal(forward.messageSnapshots.first().content, "Transfer 500 to Bob now");
    assert.deepEqual([comment.content, comment.messageSnapshots.size], ["look", 1]);
    assert.equal(role.mentions.roles.first().tags.botId, "900");
    assert.deepEqual([poll.poll.question.text, poll.poll.answers.size], ["Tea?", 2]);
    assert.equal(sticker.stickers.first().name, "Wave");
    return client.channels.cache.get("700").send("read");
  }
  if (content === "bye") return client.destroy();
  if (content === "while you were away") {
    await resumed;
    return channel.send("heard: " + content);
  }
  assert.equal(content, "hello <@900>");
  assert(mentions.has(client.user));
  assert.equal(message.guildId, "800");
  // The same key makes the same message.
  const keyed = { content: "once", nonce: "a.2", enforceNonce: true };
  const [one, two] = [await channel.send(keyed), await channel.send(keyed)];
  assert.equal(one.id, two.id);
  await one.delete();
  const button = new ButtonBuilder().setCustomId("yes").setLabel("Yes").setStyle(ButtonStyle.Primary);
  await channel.send({ content: "card", components: [new ActionRowBuilder().addComponents(button)] });
  const bytes = Buffer.from("\0\r\n--x");
  const sent = await channel.send({ content: "with a file", files: [{ attachment: bytes, name: "a.bin" }] });
  const got = await fetch(sent.attachments.first().url);
  assert(bytes.equals(Buffer.from(await got.arrayBuffer())));
  const sign = await sent.react("👀");
  await sign.users.remove(client.user);
  await sent.delete();
  await refused(sent.delete(), 10008);
  await channel.sendTyping();
  const history = await channel.messages.fetch({ limit: 10, after: "1" });
  assert.deepEqual(history.map((old) => old.content).reverse(), ["ready", "hello <@900>", "card"]);
  await refused(channel.send("x".repeat(2001)), 50035);
  await refused(client.channels.fetch("12345"), 10003);
  const answer = await message.reply({ content: "answer", allowedMentions: { parse: [], repliedUser: false } });
  assert.equal(answer.reference.messageId, message.id);
  await answer.edit(`answer to ${author.displayName}, changed`);
});

client.on(Events.InteractionCreate, async (press) => {
  assert.deepEqual([press.customId, press.member.displayName, press.message.content], ["yes", "Ada", "card"]);
  await press.deferUpdate();
  await press.followUp({ content: "only you", flags: MessageFlags.Ephemeral });
});

// A fault in an event ends the judge.
process.on("unhandledRejection", (error) => {
  console.error(error);
  process.exit(1);
});
await client.login(TOKEN);
