//! `g2 image build` on real Docker: without a checkout and without cargo, and what it builds answers.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests play the user and the machine"
)]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{fs, path::Path, process::Command};

use crate::support::{Root, agent_image, docker, run_docker, wait_for};

/// An image that is removed with its test.
struct Image(String);

impl Image {
    fn called(name: &str) -> Self {
        Self(format!("g2-test-{name}:{}", std::process::id()))
    }

    fn label(&self, name: &str) -> String {
        let format = format!("{{{{index .Config.Labels {name:?}}}}}");
        run_docker(&["image", "inspect", "--format", &format, &self.0]).trim().to_owned()
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        run_docker(&["image", "rm", "--force", &self.0]);
    }
}

/// The program alone in a folder, as somebody has it who installed it.
fn installed() -> (tempfile::TempDir, Command) {
    let place = tempfile::tempdir().unwrap();
    let program = place.path().join("g2");
    fs::copy(env!("CARGO_BIN_EXE_g2"), &program).unwrap();
    let mut command = Command::new(program);
    command.current_dir(place.path()).env("G2_ROOT", place.path().join("none")).env("TMPDIR", place.path());
    (place, command)
}

#[test]
fn the_program_alone_builds_an_image_from_nothing_whose_agent_answers() {
    if !docker() {
        return;
    }
    let image = Image::called("bare");
    let (place, mut command) = installed();
    let built = command.args(["image", "build", "--bare", &image.0]).output().unwrap();
    assert!(built.status.success(), "{built:?}");
    assert_eq!(image.label("g2.runner"), agent_runner::ID);
    assert_eq!(image.label("g2.protocol"), "2");
    let left: Vec<_> = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["g2"], "nothing is left beside the program, and no root is made");

    let root = Root::new(&format!("[sandbox]\nkind = \"docker\"\nimage = \"{}\"\n", image.0));
    let daemon = root.serve();
    assert_eq!(root.g2(&["send", "--wait", "120", "hello"]).trim(), "echo: hello");
    root.g2(&["stop", "--agents"]);
    daemon.wait();
}

/// A container that is removed with its test.
struct Container(String);

impl Container {
    fn g2(&self, words: &[&str]) -> String {
        run_docker(&[&["exec", &self.0, "g2"], words].concat())
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        self.g2(&["stop", "--agents"]);
        run_docker(&["rm", "--force", &self.0]);
    }
}

#[test]
fn the_daemon_runs_in_a_container_and_its_agents_run_beside_it() {
    const SOCKET: &str = "/var/run/docker.sock";
    if !docker() || !Path::new(SOCKET).exists() {
        return;
    }
    let image = Image::called("daemon");
    let (_place, mut command) = installed();
    let built = command.args(["image", "build", "--daemon", &image.0]).output().unwrap();
    assert!(built.status.success(), "{built:?}");

    // The same path inside and outside: the engine mounts parts of it into agents' containers.
    let root = tempfile::tempdir().unwrap();
    let at = root.path().to_str().unwrap();
    let (volume, variable) = (format!("{at}:{at}"), format!("G2_ROOT={at}"));
    let of_root = ["--volume", &volume, "--env", &variable];
    run_docker(&[&["run", "--rm"], &of_root[..], &[&image.0, "init"]].concat());
    let toml =
        format!("[sandbox]\nkind = \"docker\"\nimage = \"{}\"\n[limits]\nmin_free_mib = 1\n", agent_image());
    fs::write(root.path().join("g2.toml"), toml).unwrap();
    let daemon = Container(format!("g2-test-daemon-{}", std::process::id()));
    let socket = format!("{SOCKET}:{SOCKET}");
    let run = ["run", "--detach", "--name", &daemon.0, "--volume", &socket];
    run_docker(&[&run[..], &of_root[..], &[&image.0]].concat());
    wait_for("the daemon in its container", || {
        let status: serde_json::Value = serde_json::from_str(&daemon.g2(&["status", "--json"])).ok()?;
        // Without a daemon it is there, and null.
        status["pid"].is_number().then_some(())
    });
    let asks = ["exec", &daemon.0, "g2", "send", "--wait", "120", "hello"];
    let asked = Command::new("docker").args(asks).output().unwrap();
    let said = String::from_utf8_lossy(&asked.stdout);
    let log = || Command::new("docker").args(["logs", &daemon.0]).output().unwrap();
    assert_eq!(said.trim(), "echo: hello", "{asked:?} {:?}", log());
    assert!(daemon.g2(&["status", "--json"]).contains("\"sandbox\":\"docker\""));
}

#[test]
fn what_is_missing_is_said_before_anything_is_built() {
    let (place, mut command) = installed();
    let tools = place.path().join("tools");
    fs::create_dir(&tools).unwrap();
    std::os::unix::fs::symlink("/bin/true", tools.join("docker")).unwrap();
    let refused = command.env("PATH", &tools).args(["image", "build", "--offline"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("debootstrap, npm") && said.contains("apt-get install debootstrap npm"), "{said}");
}

#[test]
fn a_build_that_fails_says_so_and_leaves_nothing() {
    let (place, mut command) = installed();
    let tools = place.path().join("tools");
    fs::create_dir(&tools).unwrap();
    for program in ["sh", "sed", "cp", "rm", "mktemp", "mkdir", "chmod", "cat", "dirname", "ldd"] {
        std::os::unix::fs::symlink(format!("/usr/bin/{program}"), tools.join(program)).unwrap();
    }
    let docker = tools.join("docker");
    fs::write(&docker, "#!/bin/sh\necho 'no space left' >&2\nexit 1\n").unwrap();
    fs::set_permissions(&docker, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let failed = command.env("PATH", &tools).args(["image", "build", "--bare", "x:1"]).output().unwrap();
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    let said = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(said.contains("no space left") && said.contains("building x:1 failed"), "{said}");
    let mut left: Vec<_> =
        fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["g2", "tools"]);
}

#[test]
fn debian_comes_from_the_mirror_that_this_machine_s_apt_names() {
    if Command::new("apt-get").arg("--version").output().is_err() {
        eprintln!("skipped: there is no apt here");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    fs::create_dir_all(at("parts")).unwrap();
    fs::create_dir_all(at("lists/partial")).unwrap();
    let settings = [
        ("Dir::Etc::sourcelist", "list"),
        ("Dir::Etc::sourceparts", "parts"),
        ("Dir::State::lists", "lists"),
    ];
    let settings = settings.map(|(name, file)| format!("{name} \"{}\";\n", at(file).display()));
    fs::write(at("apt.conf"), settings.concat()).unwrap();
    fs::write(at("mirrors"), "https://one.example.org/debian\nhttps://two.example.org/debian\tpriority:2\n")
        .unwrap();
    let mirror = |list: &str, parts: &str, set: Option<&str>| {
        fs::write(at("list"), list).unwrap();
        fs::write(at("parts/own.sources"), parts).unwrap();
        let mut script = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/container/mirror.sh"));
        script.arg("bookworm").env("APT_CONFIG", at("apt.conf")).env_remove("G2_DEBIAN_MIRROR");
        let said = script.envs(set.map(|set| ("G2_DEBIAN_MIRROR", set))).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().trim().to_owned();
        said.status.success().then(|| text(said.stdout)).ok_or_else(|| text(said.stderr))
    };
    let of_list = format!("deb mirror+file:{} bookworm main\n", at("mirrors").display());
    let of_others = "deb https://apt.example.com/linux/debian bookworm stable\n";
    let parts = "Types: deb\nURIs: http://parts.example.org/debian\nSuites: bookworm bookworm-updates\nComponents: main\n";
    for (list, parts, set, named) in [
        (
            "deb [arch=amd64] http://list.example.org/debian bookworm main\n",
            "",
            None,
            "http://list.example.org/debian",
        ),
        (of_others, parts, None, "http://parts.example.org/debian"),
        (&of_list, "", None, "https://one.example.org/debian"),
        (&of_list, parts, Some("http://set.example.org/"), "http://set.example.org/"),
    ] {
        assert_eq!(mirror(list, parts, set).as_deref(), Ok(named), "{list}{parts}");
    }
    let none = mirror(of_others, "", None).unwrap_err();
    assert!(none.contains("set G2_DEBIAN_MIRROR to the address of one"), "{none}");
}
