// The chat platform of the bench, as a channel of a rival: lines of JSON on a Unix socket, as of our own adapter (channel.rs).
import { connect } from 'node:net';
import { createInterface } from 'node:readline';

export class WhatsAppChannel {
  name = 'bench';

  constructor(opts) {
    this.opts = opts;
  }

  connect() {
    return new Promise((resolve) => {
      this.hub = connect(process.env.BENCH_HUB, () => {
        this.tell({ is: 'channel' });
        resolve();
      });
      createInterface({ input: this.hub }).on('line', (line) => this.heard(JSON.parse(line)));
    });
  }

  tell(line) {
    this.hub.write(`${JSON.stringify(line)}\n`);
  }

  // A platform counts a message as taken once the host has stored it: `onMessage` has by the time it returns.
  heard({ chat, id, text }) {
    const timestamp = new Date().toISOString();
    this.opts.onChatMetadata(chat, timestamp, chat, 'bench', true);
    this.opts.onMessage(chat, {
      id, chat_jid: chat, sender: 'ada', sender_name: 'Ada', content: text, timestamp, is_from_me: false, is_bot_message: false,
    });
    this.tell({ is: 'took', id });
  }

  async sendMessage(chat, text) {
    this.tell({ is: 'said', chat, text });
  }

  isConnected() {
    return true;
  }

  ownsJid(jid) {
    return jid.startsWith('bench:');
  }

  async disconnect() {
    this.hub.end();
  }

  async setTyping() {}

  async syncGroupMetadata() {}
}
