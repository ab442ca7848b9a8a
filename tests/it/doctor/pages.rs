//! Each check leads to a heading that is there.

use std::collections::BTreeSet;

use g2::domain::host::pages::page;

use super::*;

/// The anchor of a heading, as the readers of these pages make it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim_start_matches('#').trim().to_lowercase();
    kept.chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// The name that a piece of source begins with, in quotes.
fn word(rest: &str) -> Option<String> {
    let (name, _) = rest.trim_start().strip_prefix('"')?.split_once('"')?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    is_name.then(|| name.to_owned())
}

/// The names of checks in a source file: the first argument of a row.
fn checks(text: &str) -> BTreeSet<String> {
    let begins = ["Row::ok(", "Row::warn(", "Row::fail(", "all_is_well(", "all_or(", "missing("];
    begins.into_iter().flat_map(|begin| text.split(begin).skip(1).filter_map(word)).collect()
}

#[test]
fn every_check_has_a_page_and_every_page_has_the_heading() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = BTreeSet::new();
    for entry in fs::read_dir(repository.join("src/cli/doctor")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        all.extend(checks(text.split("#[cfg(test)]").next().unwrap()));
    }
    let words = fs::read_to_string(repository.join("src/domain/host/problems/words.rs")).unwrap();
    // The first field of a problem's words.
    all.extend(
        ["=> (", "let (code, about, whose) = "]
            .into_iter()
            .flat_map(|begin| words.split(begin).skip(1).filter_map(word)),
    );
    assert!(all.len() > 40, "{all:?}");
    for check in &all {
        let page =
            page(check).unwrap_or_else(|| panic!("the check {check} has no page: src/domain/host/pages.rs"));
        let (file, heading) = page.split_once('#').unwrap();
        let text = fs::read_to_string(repository.join(file)).unwrap();
        let there = text.lines().any(|line| line.starts_with('#') && anchor(line) == heading);
        assert!(there, "{check}: {file} has no heading #{heading}");
    }
}
