//! `g2 top`: what happens now, live, on a screen of its own. It reads the store and the folders, so it works with the daemon
//! down too; what runs are doing only a daemon knows.

use std::time::Duration;

use clap::Args;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use tokio::time::{Instant, sleep_until};

use super::{CliResult, Context, Failure, client::perform, out, show::Sheet};
use crate::ops::{OpError, runs::stop};

mod draw;
mod model;
mod read;

use draw::draw;
use model::{Does, View};
use read::Looks;

pub(super) const EXPLAINED: &str = "\
Keys:
  Tab, ← →, 1 to 4   runs, lanes, mailbox, channels
  ↑ ↓, PgUp, PgDn    select a row
  Enter              all fields of the row; of a run the end of its output too
  s                  stop the selected run; asks first
  /                  show only rows that contain a text; Esc shows all again
  q, Ctrl-C          leave

With --json, everything is printed once as one object. Without a terminal, use that, `g2 status`
or `g2 ps`.

Examples:
  g2 top
  g2 top --json";

/// Watch runs, lanes, mailbox and channels live
#[derive(Debug, Args)]
pub(super) struct Top {}

/// The shortest time between two looks; changes that come closer together are shown together.
const BETWEEN: Duration = Duration::from_millis(250);
/// The longest: times pass, and what runs are doing is in no feed.
const AT_LEAST: Duration = Duration::from_secs(1);

impl Top {
    pub(super) async fn run(self, context: &Context) -> CliResult {
        let mut looks = Looks::new(context).await?;
        if context.json {
            return out::json(looks.look().await?.document());
        }
        let sheet = Sheet::stdout(context);
        let Some(screen) = &sheet.screen else {
            let instead = "`g2 status` and `g2 ps` print the same once, and so does `g2 top --json`";
            return Err(Failure::Usage(OpError::invalid("g2 top needs a terminal").hint(instead)));
        };
        let mut view = View::new(looks.look().await?);
        let mut keys = keys();
        let mut terminal = ratatui::try_init().map_err(anyhow::Error::from)?;
        // However it ends, the terminal is as it was.
        let _restored = Restored;
        let mut looked = Instant::now();
        let mut is_news = false;
        loop {
            let screen = screen.at(context.world.now());
            terminal
                .draw(|frame| draw(frame, &mut view, &screen, sheet.colours))
                .map_err(anyhow::Error::from)?;
            let next = looked + if is_news { BETWEEN } else { AT_LEAST };
            tokio::select! {
                key = keys.recv() => match key.map(|event| view.take(&event)) {
                    None | Some(Does::Leave) => return Ok(()),
                    Some(Does::Nothing) => {}
                    Some(Does::Stop(id)) => {
                        view.told(match perform(context, stop::Args { id, now: false, retry: false }).await {
                            Ok(answer) => answer.says,
                            Err(error) => error.to_string(),
                        });
                        is_news = true;
                    }
                    Some(Does::ReadLog(id)) => view.log(looks.log(id)),
                },
                () = looks.news(), if !is_news => is_news = true,
                () = sleep_until(next) => {
                    // What can't be read now stays as it was, and says so.
                    match looks.look().await {
                        Ok(seen) => view.see(seen),
                        Err(failure) => view.told(failure.to_string()),
                    }
                    (looked, is_news) = (Instant::now(), false);
                }
            }
        }
    }
}

/// Gives the terminal back.
struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Reads keys, and changes of size, on a thread of its own.
fn keys() -> tokio::sync::mpsc::Receiver<Event> {
    let (sender, receiver) = tokio::sync::mpsc::channel(64);
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            let is_wanted = match &event {
                Event::Key(key) => key.kind != KeyEventKind::Release,
                Event::Resize(..) => true,
                _ => false,
            };
            if is_wanted && sender.blocking_send(event).is_err() {
                return;
            }
        }
    });
    receiver
}
