//! Programs of the user's that read files which come in: what they say stands in the prompt, and no harm that they do reaches it.

use std::path::Path;

use super::{
    files_in::{came, prompt, put},
    folder,
};
use crate::support::{Root, fail_points, wait_for};

/// A root whose hook for voices is a script of the shell that is given the file.
fn root(script: &str, more: &str) -> Root {
    folder::root_with(&format!(
        "[media.hooks]\nvoice = [\"/bin/sh\", \"-c\", '''{script}''', \"hook\", \"{{file}}\"]\n{more}"
    ))
}

#[test]
fn what_somebody_says_is_in_the_prompt_and_may_address_the_agent() {
    let root = root("echo \"I say: $(cat \"$1\") <now>\"", "");
    root.g2(&["wirings", "set", "--group", "main", "--chat", "folder:chess", "pattern=hello there"]);
    put(&root, "1.ogg", b"nothing for you");
    put(&root, "2.ogg", b"OggS hello there");
    put(&root, "3.pdf", b"%PDF-1.4 hello there");
    let _daemon = root.serve();
    let heard = prompt(&root, 1);
    assert!(
        heard.contains("\n[voice, transcribed] I say: OggS hello there &lt;now&gt;</message>"),
        "{heard}"
    );
    wait_for("the others to be judged", || {
        let ignored = |seq: i64| root.why(seq)["wirings"][0]["verdict"] == "ignore";
        (came(&root).len() == 3 && ignored(1) && ignored(3)).then_some(())
    });
    let rows = came(&root);
    assert_eq!(rows[0]["attachments"][0]["words"], "I say: nothing for you <now>");
    assert!(rows[2]["attachments"][0].get("digest").is_none(), "what nobody hears is not fetched");
    assert!(!root.data("hooks").exists() || root.data("hooks").read_dir().unwrap().next().is_none());
}

#[test]
fn a_message_goes_on_without_a_hook_that_hangs_fails_or_says_nothing_and_with_the_beginning_of_too_much() {
    for (script, line) in [
        ("sleep 600 & sleep 600", "[voice, not transcribed: the hook took more than 2 s]"),
        ("echo broken >&2; exit 3", "[voice, not transcribed: the hook ended with exit status: 3]"),
        ("echo", "[voice, not transcribed: the hook said nothing]"),
        ("head -c 1000000 /dev/zero | tr '\\0' x", "x… (the rest is left out)</message>"),
    ] {
        let root = root(script, "seconds = 2\n");
        put(&root, "1.ogg", b"OggS");
        let _daemon = root.serve();
        let prompt = prompt(&root, 0);
        assert!(prompt.contains(line), "{script}: {prompt}");
        assert!(prompt.len() < 40_000);
        assert!(root.data("hooks").read_dir().unwrap().next().is_none(), "{script}");
    }
}

#[test]
fn a_hook_is_given_no_secret_and_sees_no_files_but_its_own_where_the_kernel_can_see_to_it() {
    let root = root("env; cat ../../g2.sqlite > copy; wc -c < copy; echo over > \"$1\" || echo closed", "");
    put(&root, "1.ogg", b"OggS");
    let _daemon = root.serve();
    prompt(&root, 0);
    let words = came(&root)[0]["attachments"][0]["words"].as_str().unwrap().to_owned();
    for line in words.lines().filter(|line| line.contains('=')) {
        let name = line.split_once('=').unwrap().0;
        assert!(["HOME", "LANG", "PATH", "TMPDIR", "PWD", "OLDPWD", "SHLVL", "_"].contains(&name), "{words}");
    }
    let log = std::fs::read_to_string(root.path().join("serve.log")).unwrap();
    if log.contains("has no Landlock") {
        eprintln!("skipped: no Landlock");
    } else {
        assert!(words.lines().any(|line| line.trim() == "0"), "{words}");
    }
    let digest = came(&root)[0]["attachments"][0]["digest"].as_str().unwrap().to_owned();
    let kept = root.data(&format!("media/{}/{digest}", &digest[..2]));
    assert_eq!(std::fs::read(kept).unwrap(), b"OggS", "the kept file is another one");
}

#[test]
fn a_hook_reaches_nobody_and_what_it_starts_ends_with_it() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!(
        "(setsid sleep 600 || exec sleep 600) > /dev/null 2>&1 & echo $!; bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}' && echo reached || echo shut"
    );
    // The script stands between marks of its own.
    let root = root(&script.replace('\'', "\""), "");
    put(&root, "1.ogg", b"OggS");
    let _daemon = root.serve();
    prompt(&root, 0);
    let words = came(&root)[0]["attachments"][0]["words"].as_str().unwrap().to_owned();
    let (pid, reached) = words.split_once('\n').unwrap();
    assert_eq!(reached, "shut");
    assert!(listener.accept().is_err(), "somebody connected");
    wait_for("what it started to end", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        (stat.is_empty() || stat.contains(") Z ")).then_some(())
    });
}

#[test]
fn a_hook_that_may_use_the_network_reaches_it() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!("exec bash -c \"exec 3<>/dev/tcp/127.0.0.1/{port} && echo reached || echo shut\"");
    let root = root(&script, "network = true\n");
    put(&root, "1.ogg", b"OggS");
    let _daemon = root.serve();
    prompt(&root, 0);
    assert_eq!(came(&root)[0]["attachments"][0]["words"], "reached");
}

#[test]
fn a_daemon_that_dies_over_a_hook_has_it_read_the_file_again() {
    if !fail_points() {
        return;
    }
    for place in ["file.settled", "file.heard"] {
        let root = root("cat \"$1\"", "");
        let reached = root.path().join("reached");
        put(&root, "1.ogg", b"OggS hello");
        let daemon =
            root.spawn(&[("G2_FAILPOINT", place), ("G2_FAILPOINT_FILE", &reached.display().to_string())]);
        wait_for(place, || Path::new(&reached).exists().then_some(()));
        daemon.wait();
        let _daemon = root.serve();
        let heard = prompt(&root, 0);
        assert!(heard.contains("[voice, transcribed] OggS hello</message>"), "{place}: {heard}");
        assert_eq!(came(&root).len(), 1);
    }
}
