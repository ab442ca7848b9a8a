//! What `g2 top` shows and how keys change it, pure.

use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use serde_json::Value;

use super::read::Seen;
use crate::store::Text;

/// A list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tab {
    Runs,
    Lanes,
    Mailbox,
    Channels,
}

impl Tab {
    pub(super) const ALL: [Self; 4] = [Self::Runs, Self::Lanes, Self::Mailbox, Self::Channels];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Lanes => "lanes",
            Self::Mailbox => "mailbox",
            Self::Channels => "channels",
        }
    }

    /// Returns its columns, as `show::rows` has them.
    pub(super) fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Runs => {
                &["id", "group", "lane", "-kind", "state", "since", "-last_sign", "~doing", "ends_at"]
            }
            Self::Lanes => {
                &["group", "chat_jid", "-thread", "waiting", "since", "-rest_until", "run", "~waits_for"]
            }
            Self::Mailbox => &["id", "group", "type", "state", "age_ms", "-name", "~reason"],
            Self::Channels => {
                &["name", "connection", "inbound", "outbound", "-last_in", "-last_out", "unsent", "~why"]
            }
        }
    }
}

/// What keys act on now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Browse,
    /// The text of the filter is typed.
    Filter,
    /// All of one row, from this line on.
    Detail {
        title: String,
        lines: Vec<String>,
        from: usize,
    },
    /// Whether this run is to be stopped.
    Ask {
        run: i64,
    },
}

/// What a key wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Does {
    Nothing,
    Leave,
    Stop(i64),
    ReadLog(i64),
}

/// The screen.
#[derive(Debug)]
pub(super) struct View {
    pub(super) seen: Seen,
    pub(super) tab: Tab,
    /// The selected row of those that are shown.
    pub(super) selected: usize,
    pub(super) filter: String,
    pub(super) mode: Mode,
    /// What came of the last act.
    pub(super) message: Option<String>,
    /// How many rows are on the screen, for PgUp and PgDn.
    pub(super) page: usize,
}

impl View {
    pub(super) fn new(seen: Seen) -> Self {
        let (filter, mode) = (String::new(), Mode::Browse);
        Self { seen, tab: Tab::Runs, selected: 0, filter, mode, message: None, page: 10 }
    }

    /// Everything was read again. The same row stays selected, where it is still there.
    pub(super) fn see(&mut self, seen: Seen) {
        let key = self.row().map(|row| key(self.tab, row));
        self.seen = seen;
        let rows = self.rows();
        let place = key.and_then(|wanted| rows.iter().position(|row| key_is(self.tab, row, &wanted)));
        let last = rows.len().saturating_sub(1);
        self.selected = place.unwrap_or(self.selected).min(last);
    }

    pub(super) fn told(&mut self, message: String) {
        self.message = Some(message);
    }

    /// Puts the end of a run's output below its fields.
    pub(super) fn log(&mut self, log: Vec<String>) {
        if let Mode::Detail { lines, .. } = &mut self.mode {
            lines.push(String::new());
            lines.push(if log.is_empty() { "no output yet".into() } else { "the end of its output:".into() });
            lines.extend(log);
        }
    }

    /// Returns the rows of the tab that the filter lets through.
    pub(super) fn rows(&self) -> Vec<&Value> {
        let text = Text::of(&self.filter);
        self.all(self.tab)
            .iter()
            .filter(|row| self.filter.is_empty() || super::super::filter::holds(row, &text))
            .collect()
    }

    pub(super) fn all(&self, tab: Tab) -> &[Value] {
        match tab {
            Tab::Runs => &self.seen.runs,
            Tab::Lanes => &self.seen.lanes,
            Tab::Mailbox => &self.seen.mailbox,
            Tab::Channels => &self.seen.channels,
        }
    }

    fn row(&self) -> Option<&Value> {
        self.rows().get(self.selected).copied()
    }

    /// Returns the run that a row is, or has.
    fn run(&self) -> Option<i64> {
        let row = self.row()?;
        match self.tab {
            Tab::Runs => row["id"].as_i64(),
            Tab::Lanes => row["run"].as_i64(),
            Tab::Mailbox | Tab::Channels => None,
        }
    }

    /// Takes a key, or a change of size.
    pub(super) fn take(&mut self, event: &Event) -> Does {
        let Event::Key(key) = event else { return Does::Nothing };
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Does::Leave;
        }
        match &mut self.mode {
            Mode::Browse => return self.browse(*key),
            Mode::Filter => match key.code {
                KeyCode::Enter => self.mode = Mode::Browse,
                KeyCode::Esc => (self.mode, self.filter) = (Mode::Browse, String::new()),
                KeyCode::Backspace => drop(self.filter.pop()),
                KeyCode::Char(c) => self.filter.push(c),
                _ => {}
            },
            Mode::Detail { lines, from, .. } => {
                let last = lines.len().saturating_sub(1);
                match key.code {
                    KeyCode::Esc | KeyCode::Enter | KeyCode::Char('q') => self.mode = Mode::Browse,
                    code => *from = moved(*from, code, self.page).unwrap_or(*from).min(last),
                }
            }
            Mode::Ask { run } => {
                let run = *run;
                self.mode = Mode::Browse;
                if matches!(key.code, KeyCode::Char('y' | 'Y')) {
                    return Does::Stop(run);
                }
                self.message = Some(format!("run {run} goes on"));
            }
        }
        self.selected = self.selected.min(self.rows().len().saturating_sub(1));
        Does::Nothing
    }

    fn browse(&mut self, key: KeyEvent) -> Does {
        self.message = None;
        let at = Tab::ALL.iter().position(|tab| *tab == self.tab).unwrap_or(0);
        let tab = match key.code {
            KeyCode::Char('q') => return Does::Leave,
            KeyCode::Tab | KeyCode::Right => Some(at + 1),
            KeyCode::BackTab | KeyCode::Left => Some(at + Tab::ALL.len() - 1),
            KeyCode::Char(digit @ '1'..='4') => digit.to_digit(10).map(|digit| digit as usize - 1),
            _ => None,
        };
        if let Some(tab) = tab {
            (self.tab, self.selected) = (Tab::ALL[tab % Tab::ALL.len()], 0);
            return Does::Nothing;
        }
        match key.code {
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('s') => match self.run() {
                Some(run) => self.mode = Mode::Ask { run },
                None => self.message = Some("no run is selected".into()),
            },
            KeyCode::Enter => {
                let Some(row) = self.row() else { return Does::Nothing };
                let title = format!("{}: {}", self.tab.name(), key_words(self.tab, row));
                self.mode = Mode::Detail { title, lines: fields(row), from: 0 };
                if let Some(run) = self.run() {
                    return Does::ReadLog(run);
                }
            }
            code => {
                let last = self.rows().len().saturating_sub(1);
                self.selected = moved(self.selected, code, self.page).unwrap_or(self.selected).min(last);
            }
        }
        Does::Nothing
    }
}

/// Returns where a key leads from a place.
fn moved(from: usize, code: KeyCode, page: usize) -> Option<usize> {
    Some(match code {
        KeyCode::Up | KeyCode::Char('k') => from.saturating_sub(1),
        KeyCode::Down | KeyCode::Char('j') => from + 1,
        KeyCode::PageUp => from.saturating_sub(page),
        KeyCode::PageDown => from + page,
        KeyCode::Home => 0,
        KeyCode::End => usize::MAX,
        _ => return None,
    })
}

/// The fields of a row that tell it from others.
fn key(tab: Tab, row: &Value) -> Vec<Value> {
    let names: &[&str] = match tab {
        Tab::Runs => &["id"],
        Tab::Lanes => &["group", "chat_jid", "thread"],
        Tab::Mailbox => &["id", "group", "box", "name"],
        Tab::Channels => &["name"],
    };
    names.iter().map(|name| row[*name].clone()).collect()
}

fn key_is(tab: Tab, row: &Value, wanted: &[Value]) -> bool {
    key(tab, row) == wanted
}

fn key_words(tab: Tab, row: &Value) -> String {
    let parts: Vec<String> =
        key(tab, row).iter().filter(|value| !value.is_null()).map(super::super::show::cell).collect();
    parts.join(" ")
}

/// The fields of a row, a line each.
fn fields(row: &Value) -> Vec<String> {
    let fields = row.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    let fields: Vec<(String, String)> =
        fields.map(|(name, value)| (name.clone(), super::super::show::cell(value))).collect();
    let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    fields.into_iter().map(|(name, value)| format!("{name:width$}  {value}")).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    /// A screen with a few rows.
    pub(in super::super) fn some() -> View {
        View::new(Seen {
            runs: vec![
                json!({"id": 3, "group": "main", "lane": "local:main", "kind": "message", "state": "busy", "doing": "Bash"}),
                json!({"id": 4, "group": "family", "lane": "local:family", "kind": "task", "state": "idle", "doing": null}),
            ],
            lanes: vec![
                json!({"group": "main", "chat_jid": "local:main", "thread": null, "waiting": 2, "run": 3, "waits_for": "its run"}),
            ],
            ..Seen::default()
        })
    }

    fn press(view: &mut View, keys: &[KeyCode]) -> Vec<Does> {
        keys.iter()
            .map(|code| view.take(&Event::Key(KeyEvent::from(*code))))
            .filter(|does| *does != Does::Nothing)
            .collect()
    }

    #[test]
    fn a_run_is_stopped_after_a_yes_only() {
        use KeyCode::{Char, Down};
        let mut view = some();
        assert_eq!(press(&mut view, &[Char('s'), Char('n')]), []);
        assert_eq!(view.message.as_deref(), Some("run 3 goes on"));
        assert_eq!(press(&mut view, &[Down, Char('s'), Char('y')]), [Does::Stop(4)]);
        // Of a lane it is its run.
        assert_eq!(press(&mut view, &[Char('2'), Char('s'), Char('y')]), [Does::Stop(3)]);
        assert_eq!(press(&mut view, &[Char('3'), Char('s')]), []);
        assert_eq!(view.message.as_deref(), Some("no run is selected"));
    }

    #[test]
    fn a_filter_is_typed_and_let_go_and_keys_in_it_do_nothing_else() {
        use KeyCode::{Char, Enter, Esc};
        let mut view = some();
        assert_eq!(
            press(&mut view, &[Char('/'), Char('F'), Char('a'), Char('q'), KeyCode::Backspace, Enter]),
            []
        );
        assert_eq!((view.rows().len(), view.rows()[0]["id"].as_i64()), (1, Some(4)));
        assert_eq!(press(&mut view, &[Char('s'), Char('y')]), [Does::Stop(4)]);
        press(&mut view, &[Esc]);
        assert_eq!(view.rows().len(), 2);
        assert_eq!(press(&mut view, &[Char('q')]), [Does::Leave]);
    }

    #[test]
    fn the_same_row_stays_selected_when_rows_come_and_go() {
        let mut view = some();
        press(&mut view, &[KeyCode::Down]);
        let seen =
            |ids: &[i64]| Seen { runs: ids.iter().map(|id| json!({"id": id})).collect(), ..Seen::default() };
        view.see(seen(&[1, 2, 3, 4]));
        assert_eq!(view.selected, 3);
        view.see(seen(&[9]));
        assert_eq!(view.selected, 0);
        view.see(seen(&[]));
        assert_eq!(press(&mut view, &[KeyCode::Enter, KeyCode::End, KeyCode::Char('s')]), []);
        assert_eq!(view.selected, 0);
    }

    #[test]
    fn tabs_go_round_and_a_row_opens_with_the_output_of_its_run() {
        let mut view = some();
        assert_eq!(press(&mut view, &[KeyCode::Left]), []);
        assert_eq!(view.tab, Tab::Channels);
        press(&mut view, &[KeyCode::Tab]);
        assert_eq!(press(&mut view, &[KeyCode::Enter]), [Does::ReadLog(3)]);
        view.log(vec!["#1 is ready".into()]);
        let Mode::Detail { title, lines, .. } = &view.mode else { panic!("{:?}", view.mode) };
        assert_eq!(title, "runs: 3");
        assert_eq!(lines.last().map(String::as_str), Some("#1 is ready"));
        press(&mut view, &[KeyCode::Down, KeyCode::Esc]);
        assert_eq!(view.mode, Mode::Browse);
    }
}
