//! Engine, images, boundary and scripts.

use super::*;

#[test]
fn an_engine_that_is_away_fails_where_it_is_asked_for_and_is_told_elsewhere() {
    let root = Root::new("[sandbox]\nkind = \"docker\"\n");
    let away = |root: &Root| {
        let mut command = doctor(root);
        command.env("DOCKER_HOST", "unix:///nonexistent");
        command
    };
    finds(away(&root), "docker", "fail", "does not answer at /nonexistent", "start Docker");
    finds(away(&root), "sandbox", "ok", "containers", "");
    root.settings("[sandbox]\nkind = \"auto\"\n");
    finds(away(&root), "docker", "warn", "does not answer", "start Docker");
    finds(away(&root), "sandbox", "ok", "no boundary, because Docker", "");
    let mut elsewhere = doctor(&root);
    elsewhere.env("DOCKER_HOST", "tcp://1.2.3.4:2375");
    finds(elsewhere, "docker", "warn", "only Unix sockets", "DOCKER_HOST");
    root.settings("[sandbox]\nkind = \"auto\"\n[agent]\nprovider = \"claude\"\n");
    finds(away(&root), "docker", "fail", "does not answer", "start Docker");
    finds(away(&root), "sandbox", "ok", "as soon as Docker works", "");
}

#[test]
fn an_image_that_is_not_there_is_told_with_the_command_that_builds_it() {
    if !docker() {
        return;
    }
    let root = Root::new("[sandbox]\nkind = \"docker\"\nimage = \"g2-doctor-none:1\"\n");
    finds(doctor(&root), "docker", "ok", "answers", "");
    finds(doctor(&root), "image", "fail", "g2-doctor-none:1 does not exist", "image build g2-doctor-none:1");
    root.g2(&["groups", "set", "main", "image=g2-doctor-none:2"]);
    finds(doctor(&root), "image", "fail", "g2-doctor-none:2 does not exist", "image build g2-doctor-none:2");
}

#[test]
fn an_image_of_v1_or_of_another_runner_is_told() {
    if !docker() {
        return;
    }
    let root = Root::new("[sandbox]\nkind = \"docker\"\n");
    let ours = agent_runner::ID;
    let (other, claude) = ("g2.protocol=2 g2.runner=0.0.1+a", "g2.claude=9.9");
    for (labels, status, detail, fix) in [
        ("some=thing", "warn", "has no g2.protocol label".to_owned(), "g2.protocol=2"),
        ("g2.protocol=2", "ok", "no label says which runner".to_owned(), ""),
        (&*format!("g2.protocol=2 g2.runner={ours} {claude}"), "ok", "with Claude Code 9.9".to_owned(), ""),
        (
            other,
            "warn",
            format!("its runner is 0.0.1+a, but this g2 needs {ours}"),
            "image build --bare g2-doctor",
        ),
        (&*format!("{other} {claude}"), "warn", "its runner is 0.0.1+a".to_owned(), "--offline"),
    ] {
        let image = Labelled::new(labels);
        let mut command = doctor(&root);
        command.args(["--image", &image.0]);
        finds(command, "image", status, &detail, fix);
    }
    let image = Labelled::new(&format!("g2.protocol=2 g2.runner={ours}"));
    root.g2(&["groups", "set", "main", "provider=claude", &format!("image={}", image.0)]);
    finds(doctor(&root), "image", "warn", "agents of main need Claude Code", "--offline");
    drop(image);
    let image = Labelled::new(&format!("g2.protocol=2 g2.runner={ours} {claude}"));
    root.g2(&["groups", "set", "main", &format!("image={}", image.0)]);
    finds(doctor(&root), "image", "fail", "allows only 2.1.197", "version = \"9.9\"");
    drop(image);
    // `status` names an old image in the same words.
    let image = Labelled::new(other);
    root.g2(&["groups", "set", "main", "provider=", &format!("image={}", image.0)]);
    let _daemon = root.serve();
    let status = root.json(&["status"]);
    let finding = status["findings"].as_array().unwrap().iter().find(|one| one["code"] == "image").unwrap();
    let told = format!("image {} is of another g2: its runner is 0.0.1+a, but this g2 needs {ours}", image.0);
    assert_eq!((&finding["text"], &finding["severity"]), (&told.as_str().into(), &"warn".into()), "{status}");
    finds(doctor(&root), "image", "warn", &told, "image build --bare g2-doctor");
}

/// An empty image with labels, removed at the end.
struct Labelled(String);

impl Labelled {
    fn new(labels: &str) -> Self {
        let image = format!("g2-doctor-labelled:{}", std::process::id());
        let mut build = Command::new("docker")
            .args(["build", "--quiet", "--tag", &image, "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let text = format!("FROM scratch\nLABEL {labels}\n");
        build.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(build.wait().unwrap().success());
        Self(image)
    }
}

impl Drop for Labelled {
    fn drop(&mut self) {
        let _ = Command::new("docker").args(["rmi", "--force", &self.0]).output();
    }
}

#[test]
fn the_missing_boundary_of_child_processes_is_told() {
    let root = Root::new("");
    finds(doctor(&root), "sandbox", "warn", "no boundary", "sandbox.kind = \"docker\"");
    let _daemon = root.serve();
    root.settings("[sandbox]\nkind = \"docker\"\n");
    // What is in force is the daemon's, whatever the settings say by now.
    finds(doctor(&root), "sandbox", "warn", "no boundary", "restart");
}

#[test]
fn a_command_that_would_run_without_a_sandbox_fails() {
    let root = Root::new("[agent]\ncommand = [\"cat\"]\n");
    finds(doctor(&root), "sandbox", "fail", "agent.command (cat)", "allow_unsandboxed");
}

#[test]
fn a_script_that_can_not_be_followed_is_told() {
    let root = Root::new("[agent]\nscript = \"all.json\"\n");
    finds(doctor(&root), "script", "fail", "can't be read", "put the file there");
    fs::write(root.path().join("all.json"), "[{\"do\": [").unwrap();
    finds(doctor(&root), "script", "fail", "not a JSON list", "\"do\"");
    root.script(Some("main"), &json!([{"do": [{"say": "a"}, {"sing": "b"}]}]));
    finds(doctor(&root), "script", "fail", "rule 1, step 2", "\"do\"");
    fs::write(root.path().join("all.json"), "[]").unwrap();
    finds(doctor(&root), "script", "ok", "all.json ([agent] script) can be followed", "");
}
