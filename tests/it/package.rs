//! The Debian package: it installs on a bare Debian, and what it brings works there.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests play the user and the machine"
)]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::PoisonError,
};

use crate::support::{WHATSAPPS_PROGRAM, adapters, agent_image, docker, run_docker};

/// A small Debian without g2, as `container/build.sh --offline` keeps one; `None` where one or cargo-deb is missing.
fn debian() -> Option<String> {
    let has =
        Command::new("cargo").args(["deb", "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let list = run_docker(&["image", "ls", "--format", "{{.Repository}}:{{.Tag}}", "g2-debian"]);
    let found = list.lines().next().map(str::to_owned).filter(|_| has.is_ok_and(|status| status.success()));
    assert!(
        found.is_some() || std::env::var_os("G2_REQUIRE_DEB").is_none(),
        "G2_REQUIRE_DEB is set, and cargo-deb or an image g2-debian is missing"
    );
    if found.is_none() {
        eprintln!("skipped: no cargo-deb, or no image g2-debian");
    }
    found
}

fn built() -> PathBuf {
    // They lie beside the program under test, as the package takes them from there.
    adapters();
    agent_image();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    let _place = WHATSAPPS_PROGRAM.lock().unwrap_or_else(PoisonError::into_inner);
    let script = Command::new(repository.join(".ci/deb")).arg("debug").output().unwrap();
    assert!(script.status.success(), "{script:?}");
    let newest = fs::read_dir(repository.join("target/debian")).unwrap().map(|entry| entry.unwrap().path());
    let debs = newest.filter(|path| path.extension().is_some_and(|end| end == "deb"));
    debs.max_by_key(|path| fs::metadata(path).unwrap().modified().unwrap()).unwrap()
}

#[test]
fn the_package_installs_on_a_bare_debian_and_its_agent_answers() {
    if !docker() {
        return;
    }
    let Some(debian) = debian() else { return };
    let volume = format!("{}:/g2.deb:ro", built().display());
    let script = "set -e
        dpkg --install /g2.deb >/dev/null
        echo hello | g2 --root /root/g2 up
        /usr/lib/g2/g2-agent --version
        g2-channels --help >/dev/null 2>&1 || test $? -le 2
        g2-whatsapp --help >/dev/null 2>&1 || test $? -le 2
        test -s /usr/share/bash-completion/completions/g2
        test -s /usr/share/man/man1/g2-setup.1.gz
        test -s /usr/share/doc/g2/docs/setup.md
        g2 --root /root/g2 doctor | grep -o 'see: /usr/share/doc/g2/docs/[a-z]*.md' | sort -u | head -n 1 || true
        dpkg --remove g2 >/dev/null
        test ! -e /usr/bin/g2";
    let output = Command::new("docker")
        .args([
            "run",
            "--rm",
            "--network",
            "none",
            "--volume",
            &volume,
            "--entrypoint",
            "sh",
            &debian,
            "-c",
            script,
        ])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    assert!(
        said.contains("echo: hello") && said.contains(&format!("g2-agent {}", agent_runner::ID)),
        "{said}"
    );
}
