//! A run for people: who it is, how it stands, what it used.

use ipc_handlers::Time;

use super::Shown;
use crate::{cli::show::Sheet, domain::states::RunKind};

/// Returns a run as lines, each a word and what it says.
pub(super) fn told(sheet: &Sheet, shown: &Shown) -> Vec<String> {
    let Shown { run, used, refusals, black_box: _ } = shown;
    let text = |text: &str| sheet.cell("", &text.into());
    let none = if run.ended_at.is_some() { "none" } else { "none yet" };
    let time = |at: Option<Time>| at.map_or_else(|| none.to_owned(), |at| sheet.time(at));
    let of = match run.kind {
        RunKind::Message => "messages",
        RunKind::Task => "a task",
        RunKind::Heartbeat => "a task of HEARTBEAT.md",
    };
    let mut rows = vec![
        ("run", format!("{} of {of}", run.id)),
        ("state", run.status.to_string()),
        ("group", run.group.to_string()),
        ("lane", text(&run.lane)),
        ("started", time(run.started_at)),
    ];
    if run.ended_at.is_some() {
        rows.push(("ended", time(run.ended_at)));
    }
    if let Some(error) = &run.error {
        rows.push(("error", text(error)));
    }
    let container = run.container.as_deref().map_or_else(|| none.to_owned(), text);
    rows.push(("container", format!("{container}, sandbox {}", run.sandbox.as_str())));
    let shows = if run.records == 1 { "shows it" } else { "shows them" };
    rows.push(("output", format!("{}; `g2 runs logs {}` {shows}", counted(run.records, "record"), run.id)));
    let requests = i64::try_from(used.requests).unwrap_or(i64::MAX);
    let asked = counted(requests, "request");
    rows.push(("model", format!("{asked}: {} failed, {} refused", used.errors, used.refused)));
    rows.extend(refusals.iter().map(|refusal| {
        ("refused", format!("{}: {}: {}", sheet.time(refusal.at), text(&refusal.asked), text(&refusal.why)))
    }));
    if used.requests > 0 {
        let tokens = format!(
            "{} in, {} out, {} written to the cache, {} read from it",
            used.input_tokens, used.output_tokens, used.cache_creation_tokens, used.cache_read_tokens
        );
        rows.push(("tokens", tokens));
    }
    if let Some(money) = used.money {
        rows.push(("cost", money.whole().to_string()));
    }
    rows.into_iter().map(|(name, value)| format!("{name:9}  {value}")).collect()
}

fn counted(count: i64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use ipc_handlers::Folder;

    use super::*;
    use crate::domain::{
        rows::Run,
        runs::{
            budget::Money,
            usage::{RefusalRow, Total},
        },
        states::{RunStatus, SandboxName},
    };

    fn shown() -> Shown {
        let run = Run {
            id: 7,
            group: Folder::parse("family").unwrap(),
            lane: "local:family".into(),
            kind: RunKind::Message,
            source: "lane:2".into(),
            status: RunStatus::Running,
            owner: None,
            sandbox: SandboxName::Process,
            container: None,
            started_at: Some(Time(1_800_000_000_000)),
            ended_at: None,
            records: 1,
            error: None,
        };
        Shown { run, used: Total::default(), refusals: Vec::new(), black_box: None }
    }

    #[test]
    fn a_run_is_told_from_its_name_to_its_cost() {
        let sheet = Sheet { colours: false, screen: None };
        let mut of = shown();
        insta::assert_snapshot!(told(&sheet, &of).join("\n"), @r"
        run        7 of messages
        state      running
        group      family
        lane       local:family
        started    2027-01-15T08:00:00.000Z
        container  none yet, sandbox process
        output     1 record; `g2 runs logs 7` shows it
        model      0 requests: 0 failed, 0 refused
        ");
        of.run = Run {
            kind: RunKind::Task,
            status: RunStatus::Failed,
            ended_at: Some(Time(1_800_000_009_000)),
            container: Some("g2-1-family-7".into()),
            error: Some("one\nline \u{1b}[31monly".into()),
            records: 12,
            ..of.run
        };
        of.used = Total {
            requests: 3,
            errors: 1,
            refused: 1,
            input_tokens: 120,
            output_tokens: 80,
            money: Some(Money(1_500_000)),
            ..Total::default()
        };
        of.refusals = vec![RefusalRow {
            at: Time(1_800_000_005_000),
            asked: "GET /v1/files".into(),
            why: "not allowed".into(),
        }];
        insta::assert_snapshot!(told(&sheet, &of).join("\n"), @r"
        run        7 of a task
        state      failed
        group      family
        lane       local:family
        started    2027-01-15T08:00:00.000Z
        ended      2027-01-15T08:00:09.000Z
        error      one line  [31monly
        container  g2-1-family-7, sandbox process
        output     12 records; `g2 runs logs 7` shows them
        model      3 requests: 1 failed, 1 refused
        refused    2027-01-15T08:00:05.000Z: GET /v1/files: not allowed
        tokens     120 in, 80 out, 0 written to the cache, 0 read from it
        cost       1.5
        ");
    }
}
