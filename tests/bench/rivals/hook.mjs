// Loaded into a rival before its own program (`node --import`): gives it the one chat platform of this bench.
//
// A rival in which channels register themselves is told of it there. In one with a channel built in, that channel's module is
// replaced.
import { existsSync } from 'node:fs';
import { register } from 'node:module';
import { pathToFileURL } from 'node:url';

const here = new URL('./channel.mjs', import.meta.url).href;
const registry = `${process.env.RIVAL}/dist/channels/registry.js`;

if (existsSync(registry)) {
  const { registerChannel } = await import(pathToFileURL(registry).href);
  const { WhatsAppChannel } = await import(here);
  registerChannel('bench', (opts) => new WhatsAppChannel(opts));
} else {
  const replace = `export const resolve = (name, context, next) =>
    name.endsWith('/channels/whatsapp.js') ? { url: ${JSON.stringify(here)}, format: 'module', shortCircuit: true } : next(name, context);`;
  register(`data:text/javascript,${encodeURIComponent(replace)}`);
}
