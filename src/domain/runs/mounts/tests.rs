use super::*;
use crate::shown::errors::chain;

fn list(non_main_read_only: bool) -> Allowlist {
    serde_json::from_value(serde_json::json!({
        "allowedRoots": [
            {"path": "~/open", "allowReadWrite": true, "description": "for all"},
            {"path": "~/read", "allowReadWrite": false},
            {"path": "~/gone", "allowReadWrite": true},
        ],
        "blockedPatterns": ["tax", ""],
        "nonMainReadOnly": non_main_read_only,
    }))
    .unwrap()
}

fn off_limits() -> Vec<OffLimits> {
    [("/home/me/open/g2/data", "the state of G2"), ("/home/me/open/g2/groups", "the groups")]
        .map(|(real, what)| OffLimits { real: real.into(), what })
        .into()
}

fn ask(host: &str, inside: Option<&str>, readonly: Option<bool>) -> MountRequest {
    MountRequest { host_path: host.into(), container_path: inside.map(str::to_owned), readonly }
}

/// Decides on a request whose path is what it says.
fn decided(request: &MountRequest, is_main: bool, non_main_read_only: bool) -> Result<Granted, MountRefusal> {
    let roots = [Some("/home/me/open".into()), Some("/home/me/read".into()), None];
    let (list, off_limits) = (list(non_main_read_only), off_limits());
    let rules = Rules { list: &list, roots: &roots, off_limits: &off_limits, is_main };
    let real = expand(&request.host_path, Some(Path::new("/home/me")), Path::new("/srv"));
    let found = Found { real, kind: FoundKind::Folder };
    decide(request, Ok(found), rules, &[])
}

#[test]
fn a_mount_is_made_below_an_allowed_root_and_written_only_where_all_three_agree() {
    let cases = [
        // asked for writing, root, main, nonMainReadOnly → writable
        (Some(false), "~/open/x", true, false, true),
        (Some(false), "~/open/x", false, false, true),
        (Some(false), "~/open/x", true, true, true),
        (Some(false), "~/open/x", false, true, false),
        (Some(false), "~/read/x", true, false, false),
        (Some(true), "~/open/x", true, false, false),
        (None, "~/open/x", true, false, false),
    ];
    for (readonly, path, is_main, non_main_read_only, writable) in cases {
        let granted = decided(&ask(path, None, readonly), is_main, non_main_read_only).unwrap();
        assert_eq!(
            (granted.writable, granted.inside.as_str()),
            (writable, "/workspace/extra/x"),
            "{readonly:?} {path} {is_main} {non_main_read_only}"
        );
    }
    assert_eq!(decided(&ask("~/read/", None, None), true, false).unwrap().inside, "/workspace/extra/read");
}

#[test]
fn what_is_refused_says_why() {
    for (path, words) in [
        ("/etc", "none of allowedRoots"),
        ("~/opener", "none of allowedRoots"),
        ("~/gone/x", "none of allowedRoots"),
        ("~", "the state of G2"),
        ("/", "not one or more plain names"),
        ("~/open/.ssh", "\".ssh\""),
        ("~/open/.sshd/x", "\".ssh\""),
        ("~/open/.env.local", "\".env\""),
        ("~/open/my-tax/2020", "\"tax\""),
        ("~/open/g2", "the state of G2"),
        ("~/open/g2/data/ipc/main", "the state of G2"),
        ("~/open/g2/groups/other", "the groups"),
    ] {
        let refusal = decided(&ask(path, None, Some(false)), true, false).unwrap_err().to_string();
        assert!(refusal.contains(words), "{path}: {refusal}");
    }
}

#[test]
fn a_container_path_stays_below_extra() {
    for (path, fits) in [
        ("a", true),
        ("a/b", true),
        ("a b", true),
        ("", false),
        (" ", false),
        ("/etc", false),
        ("..", false),
        ("a/../b", false),
        ("a/..b", false),
        ("a//b", false),
        ("./a", false),
        ("a/", false),
        ("a:ro", false),
        ("a\nb", false),
    ] {
        assert_eq!(decided(&ask("~/open/x", Some(path), None), true, false).is_ok(), fits, "{path:?}");
    }
}

#[test]
fn two_mounts_never_meet() {
    let (list, roots) = (list(false), [Some("/home/me/open".into()), None, None]);
    let rules = Rules { list: &list, roots: &roots, off_limits: &[], is_main: true };
    let decide = |inside: &str, taken: &[Granted]| {
        let found = Found { real: "/home/me/open/x".into(), kind: FoundKind::Folder };
        decide(&ask("~/open/x", Some(inside), None), Ok(found), rules, taken)
    };
    let first = decide("a/b", &[]).unwrap();
    for inside in ["a/b", "a", "a/b/c"] {
        let refused = decide(inside, std::slice::from_ref(&first));
        assert!(matches!(refused, Err(MountRefusal::Taken(_))), "{inside}: {refused:?}");
    }
    assert!(decide("a/bc", &[first]).is_ok());
}

#[test]
fn what_is_not_there_or_no_folder_is_refused() {
    let (list, roots) = (list(false), [Some("/home/me/open".into()), None, None]);
    let rules = Rules { list: &list, roots: &roots, off_limits: &[], is_main: true };
    let refusal = |found| chain(&decide(&ask("~/open/x", None, None), found, rules, &[]).unwrap_err());
    assert!(refusal(Err(NotFound("no such file".into()))).contains("no such file"));
    let socket = Found { real: "/home/me/open/x".into(), kind: FoundKind::Other };
    assert!(refusal(Ok(socket)).contains("neither a folder nor a file"));
}

#[test]
fn a_list_without_its_three_parts_is_none() {
    for text in [
        r#"{"allowedRoots": [], "blockedPatterns": []}"#,
        r#"{"allowedRoots": {}, "blockedPatterns": [], "nonMainReadOnly": true}"#,
        r#"{"allowedRoots": [], "blockedPatterns": "x", "nonMainReadOnly": true}"#,
        r#"{"allowedRoots": [], "blockedPatterns": [], "nonMainReadOnly": "no"}"#,
        "null",
        "",
    ] {
        assert!(serde_json::from_str::<Allowlist>(text).is_err(), "{text}");
    }
}

#[test]
fn the_project_is_shown_without_what_is_secret_or_somebody_s() {
    let off = [OffLimits { real: "/g2/data".into(), what: "the state of G2" }];
    for (name, kind, shown) in [
        ("src", FoundKind::Folder, true),
        ("g2.toml", FoundKind::File, false),
        (".g2.toml.swp", FoundKind::File, false),
        ("g2.toml~", FoundKind::File, false),
        (".git", FoundKind::Folder, true),
        (".env", FoundKind::File, false),
        (".env.local", FoundKind::File, false),
        ("data", FoundKind::Folder, false),
        (".ssh", FoundKind::Folder, false),
        (".ENV", FoundKind::File, false),
        ("Server.KEY", FoundKind::File, false),
        ("client-secrets.json", FoundKind::File, false),
        ("monday.tar", FoundKind::File, false),
        ("Move.TAR.gz", FoundKind::File, false),
        ("monday.tar.partial", FoundKind::Folder, false),
        ("backups", FoundKind::Folder, false),
        ("g2.sqlite.before-0007", FoundKind::File, false),
        ("keys.md", FoundKind::File, true),
        ("socket", FoundKind::Other, false),
    ] {
        assert_eq!(is_shown(name, &Path::new("/g2").join(name), kind, &off), shown, "{name}");
    }
}
