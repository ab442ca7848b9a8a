//! Which part of the daemon may name which. Read from every `use`, however it is grouped, by `crate::` and by `super::`, and
//! from every `crate::` in the code.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

use super::files;

/// Which modules of the daemon a module may name besides itself. Adapters never meet; decisions know nobody.
const MAY_NAME: &[(&str, &[&str])] = &[
    ("system", &[]),
    ("domain", &[]),
    ("ipc", &["domain", "system"]),
    ("sandbox", &["domain", "system"]),
    ("channels", &["store", "domain", "system"]),
    ("store", &["domain", "system"]),
    ("gateway", &["domain", "config", "system"]),
    ("config", &["domain"]),
    ("root", &["config", "domain", "system"]),
    ("allowlists", &["config", "domain", "root"]),
    ("backup", &["store", "ipc", "domain", "config", "root", "system"]),
    ("moving", &["store", "ipc", "domain", "config", "allowlists", "root", "system"]),
    ("ops", &["backup", "moving", "store", "channels", "ipc", "domain", "config", "root", "system"]),
    ("engine", &["store", "domain", "system"]),
    ("loops", &["engine", "ops", "backup", ADAPTERS, "domain", "config", "allowlists", "root", "system"]),
    ("web", &["loops", "ops", "store", "channels", "ipc", "domain", "config", "root", "system"]),
    (
        "app",
        &[
            "web",
            "loops",
            "engine",
            "ops",
            "backup",
            "moving",
            ADAPTERS,
            "domain",
            "config",
            "allowlists",
            "root",
            "system",
        ],
    ),
    (
        "cli",
        &[
            "app",
            "loops",
            "engine",
            "ops",
            "backup",
            "moving",
            ADAPTERS,
            "domain",
            "config",
            "allowlists",
            "root",
            "system",
        ],
    ),
];

/// All five of them.
const ADAPTERS: &str = "store, channels, sandbox, ipc, gateway";

/// Every module path that a file names, from the crate's root.
pub(super) fn named(path: &str, text: &str) -> BTreeSet<Vec<String>> {
    let module = module(path);
    let used = Regex::new(r"(?m)^([ \t]*)(?:pub(?:\([a-z: ]+\))? )?use ([^;]+);").unwrap();
    let inline = Regex::new(r"\bcrate((?:::[A-Za-z_0-9]+)+)").unwrap();
    let inner = Regex::new(r"(?m)^(?:pub )?mod (\w+) \{").unwrap();
    let inner = inner.captures(text).map(|found| (found.get(0).unwrap().start(), found[1].to_owned()));
    let mut all = BTreeSet::new();
    for found in used.captures_iter(text) {
        let mut at = module.clone();
        if let Some((_, name)) = inner.as_ref().filter(|(start, _)| found.get(0).unwrap().start() > *start) {
            at.push(name.clone());
        }
        let mut trees = Vec::new();
        spread(&[], &found[2], &mut trees);
        all.extend(trees.into_iter().filter_map(|tree| from_the_root(&at, &tree)));
    }
    for found in inline.captures_iter(text) {
        all.insert(found[1].split("::").skip(1).map(str::to_owned).collect());
    }
    all
}

/// The module that a file of `src` is.
fn module(path: &str) -> Vec<String> {
    let path = path.trim_start_matches("src/").trim_end_matches(".rs").trim_end_matches("/mod");
    path.split('/').filter(|part| !matches!(*part, "lib" | "main")).map(str::to_owned).collect()
}

/// Writes the paths of a `use` out one by one.
fn spread(before: &[String], tree: &str, out: &mut Vec<Vec<String>>) {
    let tree = tree.trim();
    let (head, group) = match tree.find('{') {
        Some(at) => (&tree[..at], Some(tree[at + 1..].trim_end().trim_end_matches('}'))),
        None => (tree.split(" as ").next().unwrap(), None),
    };
    let mut path = before.to_vec();
    path.extend(head.split("::").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned));
    let Some(group) = group else { return out.push(path) };
    let (mut depth, mut start) = (0, 0);
    for (at, c) in group.char_indices().chain([(group.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !group[start..at].trim().is_empty() {
                    spread(&path, &group[start..at], out);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// Returns a path as it reads from the crate's root; `None` for one of another crate.
fn from_the_root(module: &[String], path: &[String]) -> Option<Vec<String>> {
    let ups = path.iter().take_while(|part| *part == "super").count();
    match path.first()?.as_str() {
        "crate" => Some(path[1..].to_vec()),
        "super" => Some([&module[..module.len().checked_sub(ups)?], &path[ups..]].concat()),
        _ => None,
    }
}

#[test]
fn dependencies_point_one_way() {
    let all: Vec<&str> = MAY_NAME.iter().map(|(name, _)| *name).collect();
    for (path, text) in files("src", "rs") {
        let path = path.to_str().unwrap();
        let Some(of) = module(path).into_iter().next() else { continue };
        if of == "build" {
            continue;
        }
        let (_, allowed) =
            MAY_NAME.iter().find(|(name, _)| *name == of).unwrap_or_else(|| panic!("{of} has no row"));
        let allowed: Vec<&str> = allowed.iter().flat_map(|names| names.split(", ")).collect();
        for name in named(path, &text).iter().filter_map(|path| path.first()) {
            let may = *name == of || allowed.contains(&name.as_str()) || !all.contains(&name.as_str());
            assert!(may, "{path} names {name}, which {of} may not");
        }
    }
}

#[test]
fn loops_never_call_each_other_in_a_circle() {
    let mut calls: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, text) in files("src/loops", "rs") {
        let path = path.to_str().unwrap();
        let Some(of) = module(path).into_iter().nth(1) else { continue };
        let others = named(path, &text).into_iter().filter(|path| path.first().is_some_and(|p| p == "loops"));
        let others = others.filter_map(|path| path.into_iter().nth(1));
        let is_module = |name: &String| name.starts_with(char::is_lowercase) && *name != of;
        calls.entry(of.clone()).or_default().extend(others.filter(is_module));
    }
    // Take away who calls nobody that is left, until nobody is.
    while !calls.is_empty() {
        let done: Vec<String> = calls
            .iter()
            .filter(|(_, others)| !others.iter().any(|other| calls.contains_key(other)))
            .map(|(name, _)| name.clone())
            .collect();
        assert!(!done.is_empty(), "these call each other: {calls:#?}");
        calls.retain(|name, _| !done.contains(name));
    }
}

#[test]
fn a_path_is_found_however_it_is_written() {
    let text = "use crate::{store::{Store, Body}, domain::lanes};\npub(super) use crate::ipc::*;\nuse super::{run, ipc::chain};\n\
                fn f() { crate::cli::log::start() }\nmod tests {\n    use super::*;\n    use super::super::super::app;\n}";
    let found: Vec<String> =
        named("src/loops/room.rs", text).into_iter().map(|path| path.join("::")).collect();
    let expected = [
        "app",
        "cli::log::start",
        "domain::lanes",
        "ipc",
        "ipc::*",
        "loops::ipc::chain",
        "loops::room::*",
        "loops::run",
        "store::Body",
        "store::Store",
    ];
    assert_eq!(found, expected);
}
