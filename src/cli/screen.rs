//! The last line of a terminal in which somebody chats: the prompt, or that the agent is typing.
//!
//! All of it goes to stderr, and nothing to what is no terminal: answers alone are on stdout.

#![expect(
    clippy::print_stderr,
    reason = "draws a line of the terminal; what is foreign in it acts on nothing"
)]

use std::io::IsTerminal as _;

use crate::domain::screen::acts;

const PROMPT: &str = "> ";
/// To the start of the line, which is erased.
const ERASE: &str = "\r\x1b[2K";

/// What stands below the conversation.
pub(super) struct Screen {
    below: Below,
    prompts: bool,
    /// How it is said that the agent is typing; `None`: nobody would see it.
    typing: Option<String>,
    /// An agent works for the chat.
    at_work: bool,
    /// Something was said since the last question.
    answered: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Below {
    Nothing,
    Prompt,
    Typing,
}

impl Screen {
    /// The screen of this process; `name` is the agent's.
    pub(super) fn new(name: &str) -> Self {
        let prompts = std::io::stdin().is_terminal();
        Self::of(prompts, prompts && std::io::stderr().is_terminal(), name)
    }

    fn of(prompts: bool, shows_typing: bool, name: &str) -> Self {
        let name: String = name.chars().filter(|c| !acts(*c)).collect();
        let typing = shows_typing.then(|| format!("\x1b[2m{name} is typing…\x1b[0m"));
        Self { below: Below::Nothing, prompts, typing, at_work: false, answered: false }
    }

    pub(super) fn shows_typing(&self) -> bool {
        self.typing.is_some()
    }

    /// The next question may be typed.
    pub(super) fn prompt(&mut self) {
        eprint!("{}", self.ask_on());
    }

    /// Whoever chats has typed a line.
    pub(super) fn was_asked(&mut self) {
        eprint!("{}", self.after_question());
    }

    /// The agent has begun or ended to work for the chat.
    pub(super) fn typing(&mut self, on: bool) {
        eprint!("{}", self.work(on));
    }

    /// Something is to be printed.
    pub(super) fn make_room(&mut self) {
        eprint!("{}", self.clear());
    }

    /// It was printed.
    pub(super) fn was_said(&mut self) {
        eprint!("{}", self.after_answer());
    }

    fn ask_on(&mut self) -> String {
        if !self.prompts {
            return String::new();
        }
        self.below = Below::Prompt;
        PROMPT.to_owned()
    }

    fn clear(&mut self) -> String {
        if self.below != Below::Typing {
            return String::new();
        }
        self.below = Below::Nothing;
        ERASE.to_owned()
    }

    fn after_question(&mut self) -> String {
        (self.below, self.answered) = (Below::Nothing, false);
        self.show_work()
    }

    fn after_answer(&mut self) -> String {
        (self.below, self.answered) = (Below::Nothing, true);
        if self.at_work && self.typing.is_some() { self.show_work() } else { self.ask_on() }
    }

    fn work(&mut self, on: bool) -> String {
        self.at_work = on;
        if on {
            return self.show_work();
        }
        let mut text = self.clear();
        // The prompt would stand here already, had the agent not gone on after its answer.
        if !text.is_empty() && self.answered {
            text.push_str(&self.ask_on());
        }
        text
    }

    /// What somebody types is never overwritten: where a prompt stands, nothing is shown.
    fn show_work(&mut self) -> String {
        match &self.typing {
            Some(text) if self.at_work && self.below == Below::Nothing => {
                self.below = Below::Typing;
                text.clone()
            }
            Some(_) | None => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIM: &str = "\x1b[2mG2 is typing…\x1b[0m";

    #[test]
    fn typing_stands_where_the_prompt_will_be_and_is_removed_before_anything_is_printed() {
        let mut screen = Screen::of(true, true, "G2");
        assert_eq!(screen.ask_on(), PROMPT);
        assert_eq!(screen.after_question(), "");
        assert_eq!(screen.work(true), DIM);
        assert_eq!(screen.work(true), "", "a renewal changes nothing");
        assert_eq!(screen.clear(), ERASE);
        assert_eq!(screen.after_answer(), DIM, "it has said something and goes on");
        assert_eq!(screen.work(false), format!("{ERASE}{PROMPT}"));
        assert_eq!(screen.work(false), "");
    }

    #[test]
    fn the_end_may_come_before_the_answer_or_without_one() {
        let mut screen = Screen::of(true, true, "G2");
        screen.ask_on();
        screen.after_question();
        assert_eq!(screen.work(true), DIM);
        assert_eq!(screen.work(false), ERASE);
        assert_eq!(screen.clear() + &screen.after_answer(), PROMPT);
    }

    #[test]
    fn what_is_being_typed_is_not_overwritten() {
        let mut screen = Screen::of(true, true, "G2");
        screen.ask_on();
        assert_eq!(screen.work(true) + &screen.clear(), "", "somebody else has asked");
        assert_eq!(screen.after_question(), DIM, "the agent is at work already");
    }

    #[test]
    fn nothing_is_shown_where_nobody_looks_and_a_name_acts_on_nothing() {
        let mut pipe = Screen::of(false, false, "G2");
        assert!(!pipe.shows_typing());
        let asked = pipe.ask_on() + &pipe.after_question() + &pipe.work(true);
        let answered = pipe.clear() + &pipe.after_answer() + &pipe.work(false);
        assert_eq!(asked + &answered, "");
        let mut half = Screen::of(true, false, "G2");
        assert_eq!(half.ask_on() + &half.work(true) + &half.after_answer(), [PROMPT, PROMPT].concat());
        let mut named = Screen::of(true, true, "\x1b[31mX\n");
        assert_eq!(named.work(true), "\x1b[2m[31mX is typing…\x1b[0m");
    }
}
