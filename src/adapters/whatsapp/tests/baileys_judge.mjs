// Baileys, a client of WhatsApp by other people, links itself to the WhatsApp that its arguments name, and answers what it is told.
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const [url, root, state] = process.argv.slice(2)
const folder = process.cwd() + '/node_modules/baileys/lib'
const load = path => import(pathToFileURL(`${folder}/${path}`).href)
const { default: makeWASocket, useMultiFileAuthState } = await load('index.js')
const { WA_CERT_DETAILS } = await load('Defaults/index.js')
// Its own check of the server's certificate stays; only whose root it is differs.
WA_CERT_DETAILS.PUBLIC_KEY = Buffer.from(root, 'hex')
const pino = createRequire(`${process.cwd()}/node_modules/baileys/package.json`)('pino')
const say = (...words) => process.stdout.write(JSON.stringify(words) + '\n')

const begin = async () => {
  const { state: auth, saveCreds } = await useMultiFileAuthState(state)
  const logger = pino({ level: process.env.LEVEL ?? 'silent' }, pino.destination(2))
  const version = [2, 3000, 1042742319]
  const socket = makeWASocket({ auth, waWebSocketUrl: url, logger, version, fireInitQueries: false })
  socket.ev.on('creds.update', saveCreds)
  socket.ev.on('connection.update', ({ connection, qr, lastDisconnect }) => {
    if (qr) say('qr', qr)
    if (connection === 'open') say('open')
    if (connection === 'close') {
      say('close', lastDisconnect?.error?.output?.statusCode ?? 0)
      if (lastDisconnect?.error?.output?.statusCode !== 401) setTimeout(begin, 100)
    }
  })
  socket.ev.on('messages.upsert', async ({ messages }) => {
    for (const { key, message, pushName } of messages) {
      const text = message?.conversation ?? message?.extendedTextMessage?.text
      if (key.fromMe || !text) continue
      say('text', key.remoteJid, key.participant ?? '', text, pushName ?? '')
      try {
        const sent = await socket.sendMessage(key.remoteJid, { text: `pong: ${text}` })
        say('sent', sent.key.id)
      } catch (error) {
        say('failed', String(error?.stack ?? error))
      }
    }
  })
}
await begin()
