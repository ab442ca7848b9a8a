//! The log's one door. Agents, platforms, engines and files put words into the log; in whatever field they come,
//! an event leaves here as one line in which nothing acts on a terminal, hides, or turns what stands around it.

use std::{
    collections::HashMap,
    fmt,
    sync::Mutex,
    time::{Duration, Instant},
};

use tracing::{Event, Subscriber, callsite::Identifier};
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    fmt::{
        FmtContext, FormatEvent, FormatFields, MakeWriter,
        format::{self, Writer},
    },
    layer::SubscriberExt as _,
    registry::LookupSpan,
    reload,
    util::SubscriberInitExt as _,
};

use super::LogFormat;
use crate::{
    domain::shown::screen::{escaped, escaped_in_json},
    system::{locked::Locked as _, world::World},
};

/// The log's level, which can change while it is written.
pub(super) struct Level(reload::Handle<EnvFilter, Registry>);

impl Level {
    /// From now on lines of this level and of worse ones are written.
    pub(super) fn set(&self, level: &str) {
        // It fails where no log was started, and then there is nothing to set.
        let _ = self.0.reload(filter(level));
    }
}

fn filter(level: &str) -> EnvFilter {
    EnvFilter::new(format!("{level},bollard=warn,hyper=warn"))
}

/// Starts the log, on stderr. Lines for people have colours if `colours` says so of a terminal, or of anything else.
pub(super) fn start(world: World, format: LogFormat, level: &str, colours: impl Fn(bool) -> bool) -> Level {
    let colours = colours(std::io::IsTerminal::is_terminal(&std::io::stderr()));
    let (filter, handle) = reload::Layer::new(filter(level));
    let lines = layer(world, format, colours, std::io::stderr);
    let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
    Level(handle)
}

fn layer<S, W>(world: World, log_format: LogFormat, colours: bool, to: W) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'s> LookupSpan<'s>,
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let places = Places { world, said: Mutex::default() };
    let to = tracing_subscriber::fmt::layer().with_writer(to).with_ansi(colours);
    match log_format {
        LogFormat::Text => {
            let inside = format::format().with_target(false);
            let door = Door { inside, line: for_people, and_more: more_for_people, places };
            to.event_format(door).boxed()
        }
        LogFormat::Json => {
            let inside = format::format().json().flatten_event(true).with_span_list(false);
            let door = Door { inside, line: for_programs, and_more: more_for_programs, places };
            to.fmt_fields(format::JsonFields::new()).event_format(door).boxed()
        }
    }
}

/// How many lines that warn come from one place in a minute at most. More are counted.
const LINES: u32 = 30;
const MINUTE: Duration = Duration::from_secs(60);

/// What one place said in a minute.
struct Said {
    since: Instant,
    lines: u32,
    left_out: u64,
}

impl Said {
    /// Says one more; returns how many were left out before it. `None`: this one is left out.
    fn once_more(&mut self, now: Instant) -> Option<u64> {
        if now.duration_since(self.since) >= MINUTE {
            (self.since, self.lines) = (now, 0);
        }
        if self.lines == LINES {
            self.left_out += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

/// What of an event's fields tells whose trouble it is: each has lines of its own.
const WHOSE: [&str; 5] = ["group", "channel", "chat", "about", "problem"];
/// How many places, each with whose trouble it is, are known at a time.
const PLACES: usize = 4096;

/// Whose trouble an event tells of, as a number.
#[derive(Default)]
struct OfWhom(std::hash::DefaultHasher);

impl OfWhom {
    fn of(event: &Event<'_>) -> u64 {
        use std::hash::Hasher as _;
        let mut whom = Self::default();
        event.record(&mut whom);
        whom.0.finish()
    }
}

impl tracing::field::Visit for OfWhom {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn fmt::Debug) {
        use std::hash::Hash as _;
        if WHOSE.contains(&field.name()) {
            (field.name(), format!("{value:?}")).hash(&mut self.0);
        }
    }
}

/// Lines that warn, by their place and whose trouble it is: a fault of the world may come with each request of somebody.
struct Places {
    world: World,
    said: Mutex<HashMap<(Identifier, u64), Said>>,
}

impl Places {
    /// Returns how many lines from the same place were left out before this one; `None`: this one is.
    fn say(&self, event: &Event<'_>) -> Option<u64> {
        let metadata = event.metadata();
        if *metadata.level() > tracing::Level::WARN {
            return Some(0);
        }
        let (now, place) = (self.world.monotonic(), (metadata.callsite(), OfWhom::of(event)));
        let mut places = self.said.locked();
        if places.len() >= PLACES && !places.contains_key(&place) {
            places.retain(|_, said| now.duration_since(said.since) < MINUTE);
            if places.len() >= PLACES {
                return None;
            }
        }
        let said = places.entry(place).or_insert(Said { since: now, lines: 0, left_out: 0 });
        said.once_more(now)
    }
}

/// Passes on what `inside` makes of an event, as `line` has it.
struct Door<F> {
    inside: F,
    line: fn(&str, tracing::Level, Colours) -> String,
    /// Tells how many lines like this one were left out.
    and_more: fn(&str, u64) -> String,
    places: Places,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Colours {
    Yes,
    No,
}

impl<S, N, F> FormatEvent<S, N> for Door<F>
where
    S: Subscriber + for<'s> LookupSpan<'s>,
    N: for<'w> FormatFields<'w> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let Some(left_out) = self.places.say(event) else { return Ok(()) };
        let mut raw = String::new();
        // A writer without colours of its own: every escape character in it is somebody's.
        self.inside.format_event(context, Writer::new(&mut raw), event)?;
        let colours = if writer.has_ansi_escapes() { Colours::Yes } else { Colours::No };
        let line = (self.line)(raw.strip_suffix('\n').unwrap_or(&raw), *event.metadata().level(), colours);
        let line = if left_out > 0 { (self.and_more)(&line, left_out) } else { line };
        writer.write_str(&line)?;
        writer.write_char('\n')
    }
}

/// Adds the number of lines that were left out to a line of text.
fn more_for_people(line: &str, left_out: u64) -> String {
    format!("{line} ({left_out} more lines like it were left out before)")
}

/// The same of a line of JSON.
fn more_for_programs(line: &str, left_out: u64) -> String {
    format!("{{\"left_out\":{left_out},{}", line.strip_prefix('{').unwrap_or(line))
}

/// A line that begins with the time and the level, which may be coloured.
fn for_people(raw: &str, level: tracing::Level, colours: Colours) -> String {
    let line = escaped(raw);
    let Some((time, rest)) = line.split_once(' ').filter(|_| colours == Colours::Yes) else { return line };
    let paint = match level {
        tracing::Level::ERROR => 31,
        tracing::Level::WARN => 33,
        tracing::Level::INFO => 32,
        tracing::Level::DEBUG => 34,
        tracing::Level::TRACE => 35,
    };
    // Five letters, blanks before shorter ones.
    let (name, rest) = rest.split_at_checked(5).unwrap_or((rest, ""));
    format!("\x1b[2m{time}\x1b[0m \x1b[{paint}m{name}\x1b[0m{rest}")
}

/// A JSON document.
fn for_programs(raw: &str, _: tracing::Level, _: Colours) -> String {
    escaped_in_json(raw)
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use super::*;
    use crate::domain::shown::screen::hides;

    /// What acts on a terminal, forges lines, hides, or turns text around.
    const HOSTILE: &str = "\x1b[2J\x1b]0;t\x07 \u{9b}31m \u{202e}X \u{200b} \u{7f} \u{e0041} \u{2028}\r\n2026-11-22T00:00:00Z ERROR forged";

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Foreign(&'static str);

    /// Logs foreign text in each way there is; returns what comes out.
    fn logged(format: LogFormat, colours: bool) -> String {
        let lines = Lines::default();
        let to = lines.clone();
        let log =
            tracing_subscriber::registry().with(layer(World::real(), format, colours, move || to.clone()));
        tracing::subscriber::with_default(log, || {
            let error = Foreign(HOSTILE);
            tracing::warn!(reason = HOSTILE, "as a text");
            tracing::warn!(reason = %error, "as what displays itself");
            tracing::warn!(?error, "as what is debugged");
            tracing::warn!(error = &error as &dyn std::error::Error, "as an error");
            tracing::warn!(path = %std::path::Path::new(HOSTILE).display(), "as a path");
            tracing::warn!("as the text itself: {HOSTILE}");
            tracing::warn!("{HOSTILE}");
            let span = tracing::warn_span!("span", of = %HOSTILE);
            span.in_scope(|| tracing::warn!("in a span"));
        });
        let bytes = lines.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn whatever_way_foreign_text_comes_in_by_an_event_is_one_line_in_which_nothing_acts() {
        for format in [LogFormat::Text, LogFormat::Json] {
            let log = logged(format, false);
            assert_eq!(log.lines().count(), 8, "{log}");
            assert!(log.ends_with('\n'));
            assert!(!log.chars().any(|c| c != '\n' && hides(c)), "{}", escaped(&log));
            assert!(log.contains("forged") && log.contains("as an error"));
        }
    }

    #[test]
    fn of_many_lines_from_one_place_some_are_written_and_the_next_minute_tells_of_the_others() {
        let lines = Lines::default();
        let to = lines.clone();
        let log =
            tracing_subscriber::registry()
                .with(layer(World::real(), LogFormat::Text, false, move || to.clone()));
        tracing::subscriber::with_default(log, || {
            for n in 0..4_000 {
                tracing::warn!(n, "a page can't be read");
                tracing::info!(n, "somebody asked");
            }
            tracing::warn!("another place");
            for n in 0..80 {
                tracing::warn!(group = if n % 2 == 0 { "work" } else { "family" }, n, "a folder is lost");
            }
        });
        let log = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let count = |text: &str| log.lines().filter(|line| line.contains(text)).count();
        assert_eq!(count("a folder is lost"), 2 * LINES as usize, "each group has lines of its own");
        let expected = (LINES as usize, 4_000, 1);
        assert_eq!((count("a page can't"), count("somebody asked"), count("another place")), expected);

        let begun = World::real().monotonic();
        let mut said = Said { since: begun, lines: 0, left_out: 0 };
        let now = (0..100).filter(|_| said.once_more(begun).is_some()).count();
        assert_eq!((now, said.once_more(begun + MINUTE / 2)), (LINES as usize, None));
        assert_eq!(said.once_more(begun + MINUTE), Some(71));
        assert_eq!(said.once_more(begun + MINUTE), Some(0));
        assert_eq!(more_for_people("x", 7), "x (7 more lines like it were left out before)");
        let document: serde_json::Value = serde_json::from_str(&more_for_programs("{\"a\":1}", 7)).unwrap();
        assert_eq!(document, serde_json::json!({"left_out": 7, "a": 1}));
    }

    #[test]
    fn a_line_names_its_run_at_whatever_level_is_logged() {
        for (format, named) in [
            (LogFormat::Text, "WARN run{run=3 group=family}: in a run"),
            (LogFormat::Json, r#""group":"family","run":3"#),
        ] {
            let lines = Lines::default();
            let to = lines.clone();
            let log = tracing_subscriber::registry().with(EnvFilter::new("warn")).with(layer(
                World::real(),
                format,
                false,
                move || to.clone(),
            ));
            tracing::subscriber::with_default(log, || {
                tracing::error_span!("run", run = 3, group = %"family")
                    .in_scope(|| tracing::warn!("in a run"));
            });
            let line = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
            assert!(line.contains(named), "{line}");
        }
    }

    #[test]
    fn a_document_says_what_it_said() {
        for line in logged(LogFormat::Json, false).lines().take(1) {
            let document: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!((&document["reason"], &document["level"]), (&HOSTILE.into(), &"WARN".into()));
        }
    }

    #[test]
    fn colours_are_ours_alone() {
        let log = logged(LogFormat::Text, true);
        assert_eq!(log.lines().count(), 8);
        for line in log.lines() {
            assert_eq!(line.matches('\x1b').count(), 4, "{line:?}");
            assert!(
                line.starts_with("\x1b[2m2") && line.contains("Z\x1b[0m \x1b[33m WARN\x1b[0m "),
                "{line:?}"
            );
        }
    }
}
