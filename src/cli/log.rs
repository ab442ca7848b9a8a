//! The log's one door. Agents, platforms, engines and files put words into the log; in whatever field they come,
//! an event leaves here as one line in which nothing acts on a terminal, hides, or turns what stands around it.

use std::fmt;

use tracing::{Event, Subscriber};
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
use crate::domain::host::screen::{escaped, escaped_in_json};

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
pub(super) fn start(format: LogFormat, level: &str, colours: impl Fn(bool) -> bool) -> Level {
    let colours = colours(std::io::IsTerminal::is_terminal(&std::io::stderr()));
    let (filter, handle) = reload::Layer::new(filter(level));
    let _ =
        tracing_subscriber::registry().with(filter).with(layer(format, colours, std::io::stderr)).try_init();
    Level(handle)
}

fn layer<S, W>(log_format: LogFormat, colours: bool, to: W) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'s> LookupSpan<'s>,
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let to = tracing_subscriber::fmt::layer().with_writer(to).with_ansi(colours);
    match log_format {
        LogFormat::Text => {
            to.event_format(Door { inside: format::format().with_target(false), line: for_people }).boxed()
        }
        LogFormat::Json => {
            let inside = format::format().json().flatten_event(true).with_span_list(false);
            to.fmt_fields(format::JsonFields::new()).event_format(Door { inside, line: for_programs }).boxed()
        }
    }
}

/// Passes on what `inside` makes of an event, as `line` has it.
struct Door<F> {
    inside: F,
    line: fn(&str, tracing::Level, Colours) -> String,
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
        let mut raw = String::new();
        // A writer without colours of its own: every escape character in it is somebody's.
        self.inside.format_event(context, Writer::new(&mut raw), event)?;
        let colours = if writer.has_ansi_escapes() { Colours::Yes } else { Colours::No };
        let line = (self.line)(raw.strip_suffix('\n').unwrap_or(&raw), *event.metadata().level(), colours);
        writer.write_str(&line)?;
        writer.write_char('\n')
    }
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
    use crate::domain::host::screen::hides;

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
        let log = tracing_subscriber::registry().with(layer(format, colours, move || to.clone()));
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
    fn a_line_names_its_run_at_whatever_level_is_logged() {
        for (format, named) in [
            (LogFormat::Text, "WARN run{run=3 group=family}: in a run"),
            (LogFormat::Json, r#""group":"family","run":3"#),
        ] {
            let lines = Lines::default();
            let to = lines.clone();
            let log = tracing_subscriber::registry().with(EnvFilter::new("warn")).with(layer(
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
