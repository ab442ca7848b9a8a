// Slack's own client of Socket Mode against the Slack of the tests: BASE APP_TOKEN BOT_TOKEN, in the folder of Node packages.
import { strict as assert } from "node:assert";
import { createRequire } from "node:module";

const require = createRequire(`${process.cwd()}/`);
const { SocketModeClient } = require("@slack/socket-mode");
const { WebClient } = createRequire(require.resolve("@slack/socket-mode"))("@slack/web-api");
const [BASE, APP_TOKEN, BOT_TOKEN] = process.argv.slice(2);
const slackApiUrl = `${BASE}/api/`;
const socket = new SocketModeClient({ appToken: APP_TOKEN, clientOptions: { slackApiUrl } });
const web = new WebClient(BOT_TOKEN, { slackApiUrl, retryConfig: { retries: 0 } });

// A fault in an event ends the judge.
process.on("unhandledRejection", (fault) => {
  console.error(fault);
  process.exit(1);
});

async function refused(call, word) {
  const error = await call.then(() => null, (error) => error);
  assert.equal(error?.data?.error, word, `${error}`);
}

const attempts = [];
socket.on("message", async ({ event, body, ack, retry_num }) => {
  if (event.bot_id || event.subtype) return ack();
  assert.equal(body.authorizations[0].team_id, "T1");
  const { channel, text } = event;
  if (text === "once more") {
    // The first time it is not taken.
    attempts.push(retry_num);
    if (attempts.length === 1) return;
    assert.deepEqual(attempts, [0, 1]);
    await ack();
    return web.chat.postMessage({ channel, text: "taken the second time" });
  }
  await ack();
  if (text === "bye") {
    await socket.disconnect();
    process.exit(0);
  }
  if (text.startsWith("while")) return web.chat.postMessage({ channel, text: `heard: ${text}` });
  assert.equal(text, "<@U900> hello");
  const blocks = [
    { type: "section", text: { type: "mrkdwn", text: "card" } },
    { type: "actions", elements: [{ type: "button", action_id: "b1", value: "yes", text: { type: "plain_text", text: "Yes" } }] },
  ];
  await web.chat.postMessage({ channel, text: "card", blocks });
  const sent = await web.chat.postMessage({ channel, text: "x", metadata: { event_type: "g2_message", event_payload: { key: "k" } } });
  const history = await web.conversations.history({ channel, oldest: event.ts, include_all_metadata: true });
  assert.deepEqual(history.messages.map((one) => one.text), ["x", "card"]);
  assert.equal(history.messages[0].metadata.event_payload.key, "k");
  await web.chat.delete({ channel, ts: sent.ts });
  await refused(web.chat.delete({ channel, ts: sent.ts }), "message_not_found");
  const file = await web.files.uploadV2({ channel_id: channel, file: Buffer.from("\0\r\n--x"), filename: "a.bin" });
  assert(file.ok);
  const answer = await web.chat.postMessage({ channel, text: "answer" });
  await web.chat.update({ channel, ts: answer.ts, text: "answer to Ada, changed" });
});

socket.on("interactive", async ({ body, ack }) => {
  assert.deepEqual([body.user.id, body.actions[0].value, body.message.text], ["U100", "yes", "card"]);
  await ack();
  await web.chat.postEphemeral({ channel: body.channel.id, user: body.user.id, text: "only you" });
});

socket.on("slash_commands", ({ body, ack }) => ack({ response_type: "ephemeral", text: `done: ${body.text}` }));

await socket.start();
await web.chat.postMessage({ channel: "C700", text: "ready" });
