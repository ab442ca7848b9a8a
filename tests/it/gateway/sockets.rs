//! The socket itself: where it is, whose it is, and what becomes of it.
#![expect(clippy::disallowed_methods, reason = "tests play the user")]

use std::{
    fs,
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _},
        net::{UnixListener, UnixStream},
    },
};

use g2::gateway::{Limits, NAME};

use super::{
    host::{Host, STREAM, chunk, message, stream_start},
    scene::{Agent, Scene, ask, figures},
};

#[test]
fn a_root_may_lie_deeper_than_a_sockets_path_is_long() {
    let host = Host::always(message("m", 1, 2));
    let scene = Scene::new(&host);
    let deep = scene.path().join("d".repeat(100)).join("e".repeat(100)).join("gateway");
    assert!(deep.as_os_str().len() > 200);
    scene.open_in(1, &deep);
    // As a container has it: mounted under a short name.
    let short = scene.path().join("short");
    std::os::unix::fs::symlink(&deep, &short).unwrap();
    assert_eq!(ask(&short.join(NAME), "{}").status, 200);
}

#[test]
fn only_its_owner_may_connect() {
    let host = Host::always(message("m", 1, 2));
    let scene = Scene::new(&host);
    let socket = scene.open(1);
    let meta = fs::symlink_metadata(&socket).unwrap();
    assert_eq!(meta.permissions().mode() & 0o777, 0o600);
    assert_eq!(meta.uid(), rustix::process::geteuid().as_raw());
    let names: Vec<_> = fs::read_dir(scene.folder(1)).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, [NAME]);
}

#[test]
fn a_socket_that_was_left_over_is_replaced_in_the_same_folder() {
    let host = Host::always(message("m", 1, 2));
    let (first, second) = (Scene::new(&host), Scene::with(&host.url(), Limits::default()));
    let folder = first.folder(1);
    // One that nobody listens on any more, and one half made.
    fs::create_dir_all(&folder).unwrap();
    drop(UnixListener::bind(folder.join(NAME)).unwrap());
    drop(UnixListener::bind(folder.join(".model.sock.new")).unwrap());
    let inode = fs::metadata(&folder).unwrap().ino();
    first.open_in(1, &folder);
    assert_eq!(ask(&folder.join(NAME), "{}").status, 200);
    // The next daemon, while the last one's socket is still there.
    second.open_in(1, &folder);
    assert_eq!(ask(&folder.join(NAME), "{}").status, 200);
    assert_eq!(fs::metadata(&folder).unwrap().ino(), inode, "a mount goes on showing this folder");
    assert_eq!((figures(&first.page(1), "m").0, figures(&second.page(1), "m").0), (1, 1));
}

#[test]
fn a_run_that_ends_takes_its_streams_along_and_leaves_the_folder() {
    let (host, _go) =
        Host::halting(format!("{STREAM}{}", chunk(&stream_start("m", 25))), "0\r\n\r\n".to_owned());
    let scene = Scene::new(&host);
    let socket = scene.open(1);
    let mut agent = Agent::connect(&socket);
    agent.ask("{}");
    assert_eq!(agent.head().unwrap().status, 200);
    assert!(agent.piece().is_some());
    assert_eq!(figures(&scene.page(1), "m"), (1, 1, 25, 1));
    assert_eq!(agent.piece(), None);
    assert!(UnixStream::connect(&socket).is_err() && scene.folder(1).is_dir());
    scene.close(1);
}
