//! The agent beneath our runner: it answers with the tokens in what it is told, takes messages in the middle of a turn, and behaves
//! as its temper says.

use agent_runner::{
    CommandBox, Event, Host, Reply, Turn, Turns,
    provider::{Leave, Provider, ProviderError},
};
use g2::system::world::Clock as _;
use ipc_handlers::wire::Launch;
use serde_json::json;

use super::Place;
use crate::{
    Asked, Wants,
    agent::{messages_of, question, tokens},
};

/// The agent.
pub(super) struct Simulated {
    place: Place,
    group: String,
    chat: String,
    run: String,
    /// Its session, until it has named it.
    session: Option<String>,
    asked: u64,
}

impl Simulated {
    pub(super) fn start(place: Place, launch: &Launch, host: &Host) -> Result<Self, ProviderError> {
        let session = launch.session_id.clone().unwrap_or_else(|| format!("session-of-{}", launch.run_id));
        let mut agent = Self {
            group: launch.group_folder.clone(),
            chat: launch.chat_jid.clone(),
            run: launch.run_id.clone(),
            session: Some(session),
            asked: 0,
            place,
        };
        agent.place.pause(agent.place.0.dice.below(50));
        // Some name it only once they are up.
        if agent.place.chance(500) {
            agent.names_its_session(host)?;
        }
        Ok(agent)
    }

    fn names_its_session(&mut self, host: &Host) -> Result<(), ProviderError> {
        match self.session.take() {
            Some(session) => Ok(host.report(Event::Session(session))?),
            None => Ok(()),
        }
    }

    /// `Some`: that was its last turn.
    fn turn(&mut self, first: Turn, turns: &Turns, host: &Host) -> Result<Option<Leave>, ProviderError> {
        let (place, temper) = (self.place.clone(), self.place.temper());
        let below = |bound| place.0.dice.below(bound);
        host.report(Event::Alive)?;
        let mut begun = vec![first];
        let thinks = below(if place.chance(temper.thinks) { 300_000 } else { 2_000 });
        place.pause(thinks / 2);
        while place.chance(300)
            && let Some(more) = turns.waiting()?
        {
            begun.push(more);
        }
        place.pause(thinks / 2);
        if place.chance(temper.dies) {
            place.die();
        }
        if place.chance(temper.hangs) {
            place.hang();
        }
        if place.chance(temper.asks) {
            self.uses_a_tool(host)?;
        }
        if place.chance(temper.fails) {
            host.report(Event::Failed("the model refused".to_owned()))?;
            return Ok(Some(Leave::Exit(1)));
        }
        let mut texts: Vec<String> = begun.iter().map(|turn| answer(&turn.prompt)).collect();
        if place.chance(500) {
            texts = vec![texts.join("\n")];
        }
        let say = texts.pop();
        for text in texts {
            host.report(Event::Say(text))?;
            place.pause(below(500));
        }
        let batches: Vec<String> = begun.into_iter().filter_map(|turn| turn.batch).collect();
        if place.chance(temper.dies_late) {
            host.report(Event::Say(say.unwrap_or_default()))?;
            place.die();
        } else if place.chance(temper.defers) {
            host.report(Event::TurnDeferred { say, batches })?;
            place.pause(below(20_000));
            if place.chance(500) {
                host.report(Event::TurnDone { say: None, batches: Vec::new() })?;
            }
        } else {
            host.report(Event::TurnDone { say, batches })?;
        }
        Ok(place.chance(temper.leaves).then_some(Leave::Closed))
    }

    /// Gives a command, and waits for its reply.
    fn uses_a_tool(&mut self, host: &Host) -> Result<(), ProviderError> {
        let (place, dice) = (&self.place, &self.place.0.dice);
        // The mailbox counts its files the same way.
        let request = format!("{}-{}-{:06}", self.group, self.run, self.asked);
        self.asked += 1;
        let (command, wants) = if place.chance(300) {
            let token = format!("tok{}x", request.replace('-', "n"));
            let in_ms = 1_000 + i64::try_from(dice.below(60_000)).unwrap_or(0);
            let at = place.0.calendar.now().plus_ms(in_ms).to_string();
            let command = json!({
                "type": "schedule_task", "requestId": request, "targetJid": self.chat, "prompt": format!("do {token}"),
                "schedule_type": "once", "schedule_value": at,
            });
            (command, Wants::Task(token))
        } else if place.chance(150) {
            let token = format!("tok{}x", request.replace('-', "n"));
            let mut command = question(&self.chat, &token, 1 + dice.below(10));
            command["requestId"] = request.clone().into();
            (command, Wants::Answer(token))
        } else {
            let text = format!("said {request}");
            let command =
                json!({"type": "send_message", "requestId": request, "chatJid": self.chat, "text": text});
            (command, Wants::Text(text))
        };
        let timeout_ms = place.chance(500).then(|| dice.below(60_000));
        let name = || "mcp__g2__tool".to_owned();
        host.report(Event::InTool { name: name(), timeout_ms })?;
        host.report(Event::ToolStarted { id: request.clone(), name: name(), about: String::new() })?;
        let (group, chat, at) = (self.group.clone(), self.chat.clone(), place.0.calendar.passed());
        place.so_far().asks =
            Some(Asked { group, chat, request: request.clone(), wants, at, replies: Vec::new() });
        let to = dice.one(&[CommandBox::Messages, CommandBox::Tasks]);
        let reply = host.mailbox().send(to, &command);
        let mut so_far = place.so_far();
        so_far.asks = None;
        if let Ok(Reply::Text(reply)) = reply {
            so_far.replies.push((request.clone(), reply));
        }
        drop(so_far);
        host.report(Event::ToolEnded { id: request, failed: false })?;
        Ok(host.report(Event::ToolFinished)?)
    }
}

impl Provider for Simulated {
    fn run(&mut self, turns: &Turns, host: &Host) -> Result<Leave, ProviderError> {
        self.names_its_session(host)?;
        while let Some(turn) = turns.next()? {
            if let Some(leave) = self.turn(turn, turns, host)? {
                return Ok(leave);
            }
        }
        Ok(Leave::Closed)
    }
}

/// Answers messages with their tokens.
fn answer(prompt: &str) -> String {
    format!("re {}", tokens(&messages_of(prompt)).collect::<Vec<_>>().join(" "))
}
