//! `g2 users claim`: a code that a person writes to the account on their phone, as text and as a picture, and the wait for it.

use std::time::Duration;

use ipc_handlers::Time;
use qrcode::{QrCode, render::unicode::Dense1x2};

use super::{
    CliResult, Context, Failure,
    client::{Client, perform},
    out, show,
};
use crate::{
    domain::{
        heard::{
            claims::{ClaimState, is_now},
            people::Role,
        },
        rows::Claim,
    },
    ops::{
        Answer, OpCode, OpError,
        people::claim::{Args, Way},
    },
};

pub(super) const EXPLAINED: &str = "\
Write the code to the bot, in a chat with it alone: then you are an owner there, and questions come
to that chat. Where others read it, the code is void as soon as the bot sees it. On a terminal the
command waits for the code; Ctrl-C ends the wait, and the code stays good.

Examples:
  g2 users claim
  g2 users claim --role admin --group family";

/// Time between two looks whether the code was written.
const LOOK_AGAIN: Duration = Duration::from_millis(300);

#[derive(Debug, clap::Args)]
pub(super) struct Command {
    #[command(flatten)]
    args: Args,
    /// Wait until the code is written or too old, as on a terminal
    #[arg(long, conflicts_with = "no_wait")]
    wait: bool,
    /// Print the code and end
    #[arg(long)]
    no_wait: bool,
}

impl Command {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        let waits = (self.wait || out::is_terminal() && !context.json) && !self.no_wait;
        let answer = perform(context, self.args).await?;
        if context.json {
            show::answer(context, &answer)?;
        } else {
            out::text(&shown(&answer)?)?;
        }
        let is_up = Client::connect(&context.root).await.is_ok();
        if !is_up {
            out::tell("no daemon runs, and only a daemon reads the code: `g2 start`");
        }
        if !waits {
            return Ok(());
        }
        match wait(context, &answer).await? {
            Some(claim) if context.json => show::object(context, &claim),
            Some(claim) => out::line(became(&claim)),
            None => {
                let error = OpError::new(
                    OpCode::Failed,
                    "nobody has written the code yet; it stays good for its 10 minutes",
                );
                Err(error.hint("`g2 users list` shows whether it was used").into())
            }
        }
    }
}

/// How long it is waited for that an account says who it is.
const GREETS: Duration = Duration::from_secs(10);

/// Makes a code for the owner on an account's platform, shows it, and waits for it. Returns what came of it, in words.
pub(super) async fn owner(context: &Context, account: &str) -> Result<String, Failure> {
    let store = context.store()?;
    let began = context.world.monotonic();
    // One that was added just now has yet to connect; its link and picture come with its name.
    while context.world.monotonic().duration_since(began) < GREETS
        && store.accounts_known().await?.iter().all(|(name, _)| name != account)
    {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    let mut answer = perform(context, Args { role: Role::Owner, group: None }).await?;
    if let Some(doors) = answer.row["doors"].as_array_mut() {
        doors.retain(|door| door["channel"] == account);
    }
    out::text(&format!("\n{}\nThe code is waited for; Ctrl-C goes on without.\n", shown(&answer)?))?;
    Ok(match wait(context, &answer).await? {
        Some(claim) => became(&claim),
        None => format!("nobody is an owner on {account} yet; the code is good for its 10 minutes"),
    })
}

/// The code, where it can be written, and the picture.
fn shown(answer: &Answer) -> Result<String, Failure> {
    let doors: Vec<Way> = serde_json::from_value(answer.row["doors"].clone()).map_err(anyhow::Error::from)?;
    let code = answer.row["code"].as_str().unwrap_or_default();
    let mut text =
        format!("Write this code to your bot, in a chat with it alone, within 10 minutes:\n\n    {code}\n\n");
    for Way { channel, who, link } in &doors {
        let link = link.as_ref().map(|link| format!("  {link}")).unwrap_or_default();
        text.push_str(&format!("{channel}: {who}{link}\n"));
    }
    let link = doors.iter().find_map(|way| way.link.as_deref());
    if let Some(picture) = picture(link.unwrap_or(code)) {
        text.push_str(&format!("\n{picture}\n"));
    }
    Ok(text)
}

/// A QR code, two rows of it to a line. Terminals are mostly dark, so what is light is drawn.
pub(super) fn picture(content: &str) -> Option<String> {
    let code = QrCode::new(content.as_bytes()).ok()?;
    Some(code.render::<Dense1x2>().dark_color(Dense1x2::Light).light_color(Dense1x2::Dark).build())
}

/// Waits until the code is used, void or too old; `None`: the person at the terminal waits no more.
async fn wait(context: &Context, answer: &Answer) -> Result<Option<Claim>, Failure> {
    let id = answer.row["id"].as_i64().unwrap_or_default();
    let store = context.store()?;
    let gone = || {
        let error = OpError::new(OpCode::Failed, format!("code {id} is gone: newer ones took its place"));
        Failure::from(error.hint("`g2 users claim` makes another one"))
    };
    loop {
        let claim = store.claim(id).await?.ok_or_else(gone)?;
        let now: Time = context.world.now();
        match claim.state {
            ClaimState::Used => return Ok(Some(claim)),
            ClaimState::Void => {
                let why = format!(
                    "the code is void: it was written in {}, which others read",
                    claim.chat.as_deref().unwrap_or("a chat")
                );
                let error = OpError::new(OpCode::Failed, why);
                return Err(error
                    .hint("`g2 users claim` makes another one; write it in a chat with the bot alone")
                    .into());
            }
            ClaimState::Open if now >= claim.expires_at => {
                let error = OpError::new(OpCode::Failed, "nobody wrote the code within 10 minutes");
                return Err(error.hint("`g2 users claim` makes another one").into());
            }
            ClaimState::Open => {}
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_AGAIN) => {}
            _ = tokio::signal::ctrl_c() => return Ok(None),
        }
    }
}

fn became(claim: &Claim) -> String {
    let user = claim.used_by.as_deref().unwrap_or("somebody");
    let chat = claim.chat.as_deref().unwrap_or("their chat");
    format!("{user} is {} now; questions come to {chat}", is_now(claim))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_shown_with_its_doors_and_a_picture_of_the_link() {
        let row = serde_json::json!({"id": 1, "code": "K7QM-2XPD", "doors": [
            {"channel": "matrix", "who": "matrix", "link": null},
            {"channel": "telegram", "who": "@andy_bot", "link": "https://t.me/andy_bot?start=K7QM-2XPD"}]});
        let answer = Answer { row, says: String::new(), notes: Vec::new() };
        let text = shown(&answer).unwrap();
        assert!(text.contains("\n    K7QM-2XPD\n"), "{text}");
        assert!(
            text.contains("\nmatrix: matrix\ntelegram: @andy_bot  https://t.me/andy_bot?start=K7QM-2XPD\n"),
            "{text}"
        );
        assert!(
            text.ends_with(&format!("\n{}\n", picture("https://t.me/andy_bot?start=K7QM-2XPD").unwrap())),
            "{text}"
        );
        let wide = text.lines().map(|line| line.chars().count()).max();
        assert!(wide <= Some(80), "{wide:?}");
        assert_eq!(picture(&"x".repeat(10_000)), None);
    }
}
