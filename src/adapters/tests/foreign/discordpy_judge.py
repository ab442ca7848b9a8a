"""discord.py against the Discord of the tests: BASE GATEWAY TOKEN. It ends with 0 if all was as it expects."""

import asyncio
import io
import os
import sys
import traceback

import discord
import yarl
from discord.gateway import DiscordWebSocket

base, gateway, token = sys.argv[1:]
discord.http.Route.BASE = base + "/api/v10"
DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(gateway)
connect = DiscordWebSocket.from_client.__func__


async def uncompressed(cls, *args, **kwargs):
    return await connect(cls, *args, **{**kwargs, "compress": False})


DiscordWebSocket.from_client = classmethod(uncompressed)

intents = discord.Intents(guilds=True, messages=True, reactions=True, message_content=True)
client = discord.Client(intents=intents, chunk_guilds_at_startup=False)
resumed = asyncio.Event()


class View(discord.ui.View):
    async def on_error(self, *_):
        await on_error()


@client.event
async def on_ready():
    channel = client.get_channel(700)
    assert client.user.id == 900 and channel.guild.name == "Home" and channel.name == "general"
    await channel.send("ready", nonce="a.1")


@client.event
async def on_error(*_):
    traceback.print_exc()
    os._exit(1)


@client.event
async def on_resumed():
    resumed.set()


rows = []


def kinds(rows):
    """Each kind of message is what it is called."""
    forward, comment, masked, role, _, poll, sticker, voice, embed, page, parts, invitation, thread, join, pin, answer, gone = rows[:17]
    assert forward.message_snapshots[0].content == "Transfer 500 to Bob now" and forward.reference.type.name == "forward"
    assert comment.content == "look" and [one.content for one in comment.message_snapshots] == ["/stop", "second"]
    assert comment.message_snapshots[0].attachments[0].filename == "a.png"
    assert role.role_mentions[0].is_bot_managed() and role.role_mentions[0].tags.bot_id == 900
    assert poll.poll.question == "Tea?" and poll.poll.multiple and [one.text for one in poll.poll.answers] == ["Yes", "No"]
    assert poll.poll.answers[1].vote_count == 3 and sticker.stickers[0].name == "Wave"
    assert voice.attachments[0].is_voice_message() and voice.attachments[0].duration == 1.6
    assert embed.embeds[0].type == "rich" and embed.embeds[0].fields[0].value == "main" and page.embeds[0].type == "link"
    assert parts.components[0].content == "# Hello" and parts.flags.components_v2
    assert invitation.application.name == "Go" and thread.type.name == "thread_created"
    assert join.type.name == "new_member" and pin.type.name == "pins_add"
    assert answer.reference.resolved.content == "before" and isinstance(gone.reference.resolved, discord.DeletedReferencedMessage)


@client.event
async def on_message(message):
    if message.author == client.user:
        return
    channel = message.channel
    if channel.id == 701:
        rows.append(message)
        if message.content == "that is all":
            kinds(rows[1:])
            await client.get_channel(700).send("read")
        return
    if message.content == "bye":
        await client.close()
        return
    if message.content == "while you were away":
        await resumed.wait()
        await channel.send("heard: " + message.content)
        return
    assert message.content == "hello <@900>" and client.user in message.mentions and message.guild.id == 800
    view = View()
    button = discord.ui.Button(label="Yes", custom_id="yes")

    async def pressed(interaction):
        assert interaction.user.display_name == "Ada" and interaction.message.content == "card"
        await interaction.response.defer()
        await interaction.followup.send("only you", ephemeral=True)

    button.callback = pressed
    view.add_item(button)
    await channel.send("card", view=view)
    file = discord.File(io.BytesIO(b"\x00\r\n--x"), "a.bin")
    sent = await channel.send("with a file", file=file)
    assert await sent.attachments[0].read() == b"\x00\r\n--x"
    await sent.add_reaction("👀")
    await sent.remove_reaction("👀", client.user)
    await sent.delete()
    async with channel.typing():
        history = [old.content async for old in channel.history(limit=10, after=discord.Object(1), oldest_first=True)]
    assert history[:3] == ["ready", "hello <@900>", "card"], history
    try:
        await channel.send("x" * 2001)
        raise AssertionError("2001 characters were taken")
    except discord.HTTPException as error:
        assert error.status == 400 and error.code == 50035, error
    answer = await message.reply("answer", mention_author=False)
    assert answer.reference.message_id == message.id
    await answer.edit(content=f"answer to {message.author.display_name}, changed")


client.run(token, log_level=20)
