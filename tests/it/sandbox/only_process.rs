//! What child processes promise on top.
#![expect(
    clippy::disallowed_methods,
    reason = "a test that plays a daemon is told its root by the environment"
)]
#![expect(clippy::disallowed_types, reason = "a test plays a daemon that dies")]

use std::{
    env,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use g2::sandbox::{Sandbox, SandboxError};

use super::house::{House, eventually, is_held, process_sandbox};

#[tokio::test]
async fn without_a_command_our_own_runner_is_started() {
    let house = House::process();
    let mut spec = house.spec(&[]);
    spec.command = Vec::new();
    let id = house.launch_spec(&spec, b"said\n").await;
    assert_eq!(house.written(&id).await.text(), "said\n");
    house.sandbox.check("no image at all").await.unwrap();
}

#[tokio::test]
async fn a_child_is_told_its_folders() {
    let house = House::process();
    let spec = house.spec(&["env"]);
    let id = house.launch_spec(&spec, b"").await;
    let written = house.written(&id).await;
    for line in [
        format!("G2_GROUP_DIR={}", spec.seat.group.display()),
        format!("G2_IPC_DIR={}", spec.seat.ipc.display()),
    ] {
        assert!(written.lines().contains(&&*line), "{line} is not in {written:?}");
    }
}

#[tokio::test]
async fn a_missing_program_is_told_by_name() {
    let house = House::process();
    let mut spec = house.spec(&[]);
    spec.command = vec!["/no/such/program".to_owned()];
    let id = house.sandbox.create(&spec).await.unwrap();
    let error = house.sandbox.start(&id, Vec::new()).await.unwrap_err();
    assert!(
        matches!(&error, SandboxError::NoProgram { program, .. } if program == "/no/such/program"),
        "{error:?}"
    );
    assert_eq!(house.code(&id).await, 127);
    assert_eq!(house.written(&id).await.stdout, b"");
}

#[tokio::test]
async fn a_missing_working_directory_is_told_by_name() {
    let house = House::process();
    let mut spec = house.spec(&["hang"]);
    spec.seat.group = house.group().join("missing");
    let id = house.sandbox.create(&spec).await.unwrap();
    let error = house.sandbox.start(&id, Vec::new()).await.unwrap_err();
    assert!(error.to_string().contains("missing"), "{error}");
}

#[tokio::test]
async fn one_that_will_not_go_is_killed_after_the_grace() {
    let house = House::process();
    let lock = house.group().join("lock");
    let mut spec = house.spec(&["hold", &house.inside("lock")]);
    // What ignores a signal goes on ignoring it as another program.
    let stubborn = ["/bin/sh", "-c", "trap '' TERM; exec \"$@\"", "sh"];
    spec.command = stubborn.iter().map(|arg| (*arg).to_owned()).chain(spec.command).collect();
    let id = house.launch_spec(&spec, b"").await;
    eventually("it ignores the signal", || is_held(&lock)).await;
    house.sandbox.stop(&id, Duration::from_millis(20)).await.unwrap();
    assert_eq!(house.code(&id).await, 137);
}

#[tokio::test]
async fn one_that_leaves_the_group_does_not_keep_the_output_open() {
    let house = House::process();
    let mut spec = house.spec(&[]);
    // It goes when its output is no longer taken.
    let leaver = "echo said; setsid sh -c 'while sleep 0.1; do echo; done' &";
    spec.command = ["/bin/sh", "-c", leaver].map(str::to_owned).to_vec();
    let id = house.launch_spec(&spec, b"").await;
    assert_eq!(house.written(&id).await.text().trim(), "said");
    assert_eq!(house.code(&id).await, 0);
}

#[tokio::test]
async fn a_child_that_watches_its_host_lives_as_long_as_we_do() {
    let house = House::process();
    let lock = house.group().join("lock");
    let id = house.launch(&["hold-with-host", &house.inside("lock")], b"").await;
    eventually("the child runs", || is_held(&lock)).await;
    house.sandbox.kill(&id).await.unwrap();
    assert_eq!(house.code(&id).await, 137, "nothing else has ended it");
}

#[tokio::test]
async fn children_die_with_a_daemon_that_is_killed() {
    let root = tempfile::tempdir().unwrap();
    let lock = root.path().join("lock");
    let mut daemon = daemon(root.path(), "hold-with-host");
    eventually("the child runs", || is_held(&lock)).await;
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    eventually("the child is gone", || !is_held(&lock)).await;
}

#[tokio::test]
async fn a_process_that_outlives_its_daemon_is_killed_by_the_next() {
    let root = tempfile::tempdir().unwrap();
    let lock = root.path().join("lock");
    let mut daemon = daemon(root.path(), "child-holds");
    eventually("the child runs", || is_held(&lock)).await;
    eventually("it is noted", || is_noted(root.path())).await;
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    assert!(is_held(&lock), "it does not watch its host");
    let sandbox = process_sandbox(root.path());
    let killed = sandbox.kill_leftovers().await.unwrap();
    assert_eq!(killed.len(), 1, "{killed:?}");
    assert!(!is_held(&lock));
    assert!(sandbox.kill_leftovers().await.unwrap().is_empty());
}

#[tokio::test]
async fn our_own_children_are_no_leftovers() {
    let root = tempfile::tempdir().unwrap();
    let sandbox = process_sandbox(root.path());
    let id = sandbox.create(&House::process().spec(&["hang"])).await.unwrap();
    assert!(
        matches!(sandbox.start(&id, Vec::new()).await, Err(SandboxError::Engine { .. })),
        "its folder is gone"
    );
    let house = House::process();
    let id = sandbox.create(&house.spec(&["hang"])).await.unwrap();
    sandbox.start(&id, Vec::new()).await.unwrap();
    assert!(sandbox.kill_leftovers().await.unwrap().is_empty());
    sandbox.kill(&id).await.unwrap();
}

/// Whether a child of the sandbox of `root` is written down.
fn is_noted(root: &Path) -> bool {
    let runs = std::fs::read_dir(root.join("runs")).into_iter().flatten().flatten();
    runs.map(|run| run.path().join("process.json")).any(|note| note.is_file())
}

/// Starts this test binary again, as a daemon whose one container is the probe with `role`.
fn daemon(root: &Path, role: &str) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "sandbox::only_process::plays_a_daemon", "--ignored"])
        .env("G2_TEST_ROOT", root)
        .env("G2_TEST_ROLE", role)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[tokio::test]
#[ignore = "is started by other tests, in a process of its own"]
async fn plays_a_daemon() {
    let Ok(root) = env::var("G2_TEST_ROOT") else { return };
    let house = House::process();
    let lock = Path::new(&root).join("lock");
    let sandbox = process_sandbox(Path::new(&root));
    let spec = house.spec(&[&env::var("G2_TEST_ROLE").unwrap(), lock.to_str().unwrap()]);
    let id = sandbox.create(&spec).await.unwrap();
    sandbox.start(&id, Vec::new()).await.unwrap();
    sandbox.wait(&id).await.unwrap();
}
