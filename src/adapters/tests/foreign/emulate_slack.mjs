// A Slack that others wrote, in the folder of Node packages: SEEN is the address by which its clients reach it, BOT_TOKEN and
// ADA_TOKEN let people in. It says its own address once it listens.
import net from "node:net";
import { pathToFileURL } from "node:url";

const [SEEN, BOT_TOKEN, ADA_TOKEN] = process.argv.slice(2);
const { createEmulator } = await import(pathToFileURL(`${process.cwd()}/node_modules/emulate/dist/api.js`));
const free = await new Promise((resolve) => {
  const server = net.createServer().listen(0, "127.0.0.1", () => {
    const { port } = server.address();
    server.close(() => resolve(port));
  });
});
const scopes = ["channels:history", "channels:read", "chat:write", "files:read", "files:write", "groups:history", "groups:read",
  "im:history", "im:read", "im:write", "mpim:history", "mpim:read", "reactions:read", "reactions:write", "users:read"];
const slack = {
  team: { name: "Home", domain: "home" },
  users: [{ name: "ada", real_name: "Ada" }, { name: "g2", real_name: "G2" }],
  channels: [{ name: "plans" }],
  strict_scopes: true,
  tokens: [
    { token: BOT_TOKEN, type: "bot", user: "g2", scopes },
    { token: ADA_TOKEN, type: "user", user: "ada", scopes },
  ],
};
const emulator = await createEmulator({ service: "slack", port: free, seed: { slack }, baseUrl: SEEN });
console.log(JSON.stringify({ base: `http://127.0.0.1:${free}`, url: emulator.url }));
