//! The life pipe.

use std::{
    io::{Read, pipe},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::process::ExitStatusExt,
    },
};

use rustix::io::{FdFlags, fcntl_setfd};
use serde_json::json;

use crate::fixture::{Home, launch, wait_until};

/// Lets children inherit a descriptor.
fn inheritable(fd: impl Into<OwnedFd>) -> OwnedFd {
    let fd = fd.into();
    fcntl_setfd(&fd, FdFlags::empty()).unwrap();
    fd
}

#[test]
fn a_runner_ends_with_the_pipe_it_lives_by() {
    let home = Home::new();
    let (life, daemon) = pipe().unwrap();
    let life = inheritable(life);
    let script = json!([{"do": [{"hang": true}]}]);
    let runner = home
        .launch_with(&launch("x", Some(&script)), |command| {
            command.env("G2_LIFE_FD", life.as_raw_fd().to_string());
        })
        .ready();
    drop(daemon);
    assert_eq!(runner.end().signal(), Some(9));
}

#[test]
fn a_runner_that_still_waits_for_its_document_ends_too() {
    let home = Home::new();
    let (life, daemon) = pipe().unwrap();
    let life = inheritable(life);
    drop(daemon);
    let (runner, _stdin) = home.start(|command| {
        command.env("G2_LIFE_FD", life.as_raw_fd().to_string());
    });
    assert_eq!(runner.end().signal(), Some(9));
}

#[test]
fn what_the_runner_has_started_ends_with_it() {
    let home = Home::new();
    let (life, daemon) = pipe().unwrap();
    // Everybody below the runner holds this one; its end shows that all are gone.
    let (mut all_gone, held) = pipe().unwrap();
    let (life, held) = (inheritable(life), inheritable(held));
    let mut task = launch("x", None);
    task["isScheduledTask"] = true.into();
    task["script"] = "touch started; sleep 1000 & sleep 1000".into();
    let runner = home
        .launch_with(&task, |command| {
            command.env("G2_LIFE_FD", life.as_raw_fd().to_string());
        })
        .ready();
    drop(held);
    wait_until("the task script", || home.path("group/started").exists());
    drop(daemon);
    assert_eq!(runner.end().signal(), Some(9));
    assert_eq!(all_gone.read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_life_pipe_that_is_none_is_refused() {
    for fd in ["x", "-1", "999999"] {
        let home = Home::new();
        let runner = home.launch_with(&launch("x", None), |command| {
            command.env("G2_LIFE_FD", fd);
        });
        runner.error();
        assert_eq!(runner.end().code(), Some(1), "{fd}");
    }
}
