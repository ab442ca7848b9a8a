//! Sizes and counts that pages, help and questions name are those that are measured.
#![expect(clippy::disallowed_methods, reason = "a test reads the pages")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{fs, path::Path};

use g2::domain::{
    kept::templates::Template,
    machine::{image::ImageKind, loops::LoopName},
};

use crate::support::{Root, agent_image, claude_image, docker, run_docker};

fn page(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// A text without its breaks of lines.
fn flowing(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn spelled(n: usize) -> &'static str {
    ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
        [n]
}

#[test]
fn the_sizes_of_images_are_the_same_wherever_they_are_named() {
    let readme = page("container/README.md");
    for (kind, row) in [
        (ImageKind::Full, "| `build.sh` |"),
        (ImageKind::Offline, "| `build.sh --offline` |"),
        (ImageKind::Bare, "| `build.sh --bare` |"),
    ] {
        let line = readme.lines().find(|line| line.starts_with(row)).unwrap();
        assert!(line.contains(&format!("| {} |", kind.size())), "{line}");
        assert!(kind.holds().contains(kind.size()));
    }
    let root = Root::empty();
    let help = flowing(&root.g2(&["image", "build", "--help"]));
    for kind in [ImageKind::Full, ImageKind::Offline, ImageKind::Bare] {
        assert!(help.contains(kind.size()), "{}: {help}", kind.size());
    }
}

#[test]
fn the_sizes_of_images_are_those_that_are_measured() {
    if !docker() {
        return;
    }
    let measured = |image: &str| -> f64 {
        let size = run_docker(&["image", "inspect", "--format", "{{.Size}}", image]);
        size.trim().parse::<f64>().unwrap() / 1e6
    };
    let near = |kind: ImageKind, image: &str| {
        let (is, said) = (measured(image), kind.size().trim_end_matches(" MB").parse::<f64>().unwrap());
        // A larger one than was said takes somebody's disk by surprise.
        assert!(is <= said * 1.1 && is >= said * 0.7, "{kind:?}: {is} MB, and {said} are said");
    };
    near(ImageKind::Bare, agent_image());
    if let Some(image) = claude_image() {
        near(ImageKind::Offline, image);
    }
}

#[test]
fn counts_in_pages_are_those_of_the_program() {
    let loops = format!("{} loops have a name", LoopName::CHOICES.len());
    let templates = format!("one of {} templates", spelled(Template::CHOICES.len()));
    let words = page("docs/words.md");
    let table = words.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let ten = spelled(table.take_while(|line| line.starts_with("| ")).count());
    let lines_of = |name: &str| page(name).lines().count();
    let adapter = format!("is one in {} lines", lines_of("docs/examples/folder_adapter.py"));
    assert!(lines_of("container/examples/runner.py") < 80);
    for (name, says) in [
        ("src/README.md", loops),
        ("docs/persona.md", templates),
        ("docs/words.md", format!("# The {ten} words")),
        ("README.md", format!("has the {ten} words")),
        ("docs/channel-protocol.md", adapter),
        ("container/PROTOCOL.md", "has fewer than 80 lines".to_owned()),
    ] {
        assert!(flowing(&page(name)).contains(&says), "{name} does not say: {says}");
    }
    for (name, _) in Template::CHOICES {
        assert!(page("docs/persona.md").contains(&format!("--from {name} ")), "{name}");
    }
}

#[test]
fn the_figures_of_the_front_page_are_those_of_the_measurements() {
    let (figures, front) = (page("tests/bench/FIGURES.md"), page("README.md"));
    let measured = |groups: &str, column: usize| -> String {
        let row = figures.lines().find(|line| line.starts_with(&format!("|{groups}, "))).unwrap();
        let cell = row.split('|').nth(column).unwrap();
        let first: f64 = cell.split([',', ' ']).next().unwrap().parse().unwrap();
        format!("{first:.0}")
    };
    for (begins, column, unit) in [("| start → ready with 1", 2, "ms"), ("| memory, idle, with 1", 4, "MiB")]
    {
        let all = ["1", "100", "1 000"].map(|groups| measured(groups, column)).join(" / ");
        let row = front.lines().find(|line| line.starts_with(begins)).unwrap();
        assert!(row.ends_with(&format!("| {all} {unit} |")), "{all} {unit}: {row}");
    }
}
