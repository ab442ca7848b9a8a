//! How `g2 top` looks: a headline, the tabs, a list or one row, and a line of keys. It fits 80 × 24 and less.

use ipc_handlers::Time;
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{List, ListState, Paragraph},
};

use super::{
    super::{
        colours::Paint,
        show::{Screen, columns, laid},
    },
    model::{Mode, Tab, View},
};
use crate::domain::{shown::screen::on_screen, time::times::length};

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, view: &mut View, screen: &Screen, colours: bool) {
    let [head, tabs, body, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    view.page = usize::from(body.height).saturating_sub(2).max(1);
    frame.render_widget(headline(view, screen, colours), head);
    frame.render_widget(tabs_line(view), tabs);
    match &view.mode {
        Mode::Detail { title, lines, from } => {
            let shown = std::iter::once(Line::styled(title.clone(), bold()))
                .chain(lines.iter().skip(*from).map(|line| Line::raw(on_screen(line))));
            frame.render_widget(Paragraph::new(shown.collect::<Vec<_>>()), body);
        }
        Mode::Browse | Mode::Filter | Mode::Ask { .. } => list(frame, body, view, screen, colours),
    }
    frame.render_widget(keys_line(view), foot);
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

/// The style of a paint; without colours, only weights.
fn style(paint: Paint, colours: bool) -> Style {
    match paint {
        Paint::Bold => bold(),
        Paint::Dim => Style::new().add_modifier(Modifier::DIM),
        Paint::Good if colours => Style::new().fg(Color::Green),
        Paint::Waits if colours => Style::new().fg(Color::Yellow),
        Paint::Bad if colours => Style::new().fg(Color::Red),
        Paint::Good | Paint::Waits | Paint::Bad => Style::new(),
    }
}

fn headline(view: &View, screen: &Screen, colours: bool) -> Line<'static> {
    let Some(status) = &view.seen.status else {
        let down =
            Span::styled("g2: no daemon answers", style(Paint::Bad, colours).add_modifier(Modifier::BOLD));
        return Line::from(vec![down, Span::raw("; `g2 start` starts one")]);
    };
    let paint = if status.problems.is_empty() { Paint::Good } else { Paint::Waits };
    let up = status.since.parse().ok().map(Time::from_jiff).map(|since| length(screen.now.ms_since(since)));
    let problems = match status.problems.len() {
        0 => String::new(),
        1 => ", 1 problem (`g2 status`)".into(),
        n => format!(", {n} problems (`g2 status`)"),
    };
    let or_unknown = |count: Option<i64>| count.map_or_else(|| "?".to_owned(), |n| n.to_string());
    let of_many = |count: Option<usize>| or_unknown(count.and_then(|n| i64::try_from(n).ok()));
    let rest = format!(
        ": up for {}, {} at work, {} waiting, {} to send, {} to approve{problems}",
        up.unwrap_or_else(|| "?".into()),
        of_many(status.running),
        of_many(status.waiting),
        or_unknown(status.outbox_pending),
        of_many(status.approvals_pending)
    );
    let state = Span::styled(
        format!("g2 is {}", status.state.as_str()),
        style(paint, colours).add_modifier(Modifier::BOLD),
    );
    Line::from(vec![state, Span::raw(rest)])
}

fn tabs_line(view: &View) -> Line<'static> {
    let mut line = Vec::new();
    for (n, tab) in Tab::ALL.into_iter().enumerate() {
        let name = format!(" {} {} ({}) ", n + 1, tab.name(), view.all(tab).len());
        let is_here = tab == view.tab;
        line.push(Span::styled(
            name,
            if is_here { bold().add_modifier(Modifier::REVERSED) } else { Style::new() },
        ));
        line.push(Span::raw(" "));
    }
    if !view.filter.is_empty() {
        line.push(Span::styled(format!(" /{}", on_screen(&view.filter)), bold()));
    }
    Line::from(line)
}

fn list(frame: &mut Frame<'_>, area: Rect, view: &View, screen: &Screen, colours: bool) {
    let rows: Vec<_> = view.rows().into_iter().cloned().collect();
    let names = columns(view.tab.columns());
    let laid = laid(screen, &rows, &names, usize::from(area.width));
    let [head, body] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    let mut lines = laid.lines.iter();
    let heading = lines.next().map(|cells| cells.join("  ")).unwrap_or_default();
    frame.render_widget(Line::styled(heading, bold()), head);
    if rows.is_empty() {
        let nothing =
            if view.filter.is_empty() { "nothing now" } else { "no row contains that text; Esc shows all" };
        return frame.render_widget(Line::styled(nothing, style(Paint::Dim, colours)), body);
    }
    let items = lines.map(|cells| {
        let mut spans = Vec::new();
        for (at, cell) in cells.iter().enumerate() {
            let paint = Paint::of(&names[laid.columns[at]].0, cell.trim_end());
            spans.push(Span::styled(cell.clone(), paint.map_or(Style::new(), |paint| style(paint, colours))));
            spans.push(Span::raw("  "));
        }
        Line::from(spans)
    });
    let list = List::new(items).highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = ListState::default().with_selected(Some(view.selected));
    frame.render_stateful_widget(list, body, &mut state);
}

fn keys_line(view: &View) -> Line<'static> {
    match (&view.mode, &view.message) {
        (Mode::Ask { run }, _) => Line::styled(format!("stop run {run}? y / n"), bold()),
        (Mode::Filter, _) => {
            Line::from(format!("rows that contain: {}▏  Enter keeps it, Esc shows all", view.filter))
        }
        (Mode::Detail { .. }, _) => Line::from("↑ ↓ PgUp PgDn move   Esc goes back   Ctrl-C leaves"),
        (Mode::Browse, Some(message)) => Line::styled(on_screen(message).replace('\n', " "), bold()),
        (Mode::Browse, None) => {
            Line::from("Tab lists   ↑ ↓ select   Enter shows   s stops a run   / filters   q leaves")
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;
    use ratatui::{Terminal, backend::TestBackend};

    use super::{super::model::tests::some, *};

    fn shown(view: &mut View, width: u16, height: u16) -> Vec<String> {
        let screen = Screen { width: None, now: Time(0), zone: TimeZone::UTC };
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, view, &screen, false)).unwrap();
        let shown = terminal.backend().to_string();
        shown.lines().map(|line| line.trim_matches('"').trim_end().to_owned()).collect()
    }

    #[test]
    fn at_80_columns_a_run_is_on_one_line_and_the_keys_are_on_the_last() {
        let lines = shown(&mut some(), 80, 24);
        assert_eq!(
            &lines[..5],
            [
                "g2: no daemon answers; `g2 start` starts one",
                " 1 runs (2)   2 lanes (1)   3 mailbox (0)   4 channels (0)",
                "ID  GROUP   LANE          KIND     STATE  SINCE  LAST_SIGN  DOING  ENDS_AT",
                "3   main    local:main    message  busy   -      -          Bash   -",
                "4   family  local:family  task     idle   -      -          -      -",
            ]
        );
        assert_eq!(lines[23], "Tab lists   ↑ ↓ select   Enter shows   s stops a run   / filters   q leaves");
    }

    #[test]
    fn it_is_drawn_on_a_screen_of_any_size() {
        for (width, height) in [(80, 24), (30, 6), (10, 3), (1, 1), (200, 60)] {
            let mut view = some();
            assert_eq!(shown(&mut view, width, height).len(), usize::from(height));
            view.mode = Mode::Ask { run: 3 };
            shown(&mut view, width, height);
            view.mode = Mode::Detail { title: "t".into(), lines: vec!["a".into(); 100], from: 99 };
            shown(&mut view, width, height);
        }
    }
}
