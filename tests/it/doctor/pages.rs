//! Each check leads to a heading that is there.

use g2::domain::problems::checks::Check;

use super::*;

/// The anchor of a heading, as the readers of these pages make it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim_start_matches('#').trim().to_lowercase();
    kept.chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[test]
fn the_page_of_every_check_has_the_heading() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (name, check) in Check::CHOICES {
        let (file, heading) = check.page().split_once('#').unwrap();
        let text = fs::read_to_string(repository.join(file)).unwrap();
        let there = text.lines().any(|line| line.starts_with('#') && anchor(line) == heading);
        assert!(there, "{name}: {file} has no heading #{heading}");
    }
}
