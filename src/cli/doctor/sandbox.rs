//! How agents are run: the engine, the images, the boundary, and what the scripted agent follows.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::Duration,
};

use tokio::time::timeout;

use super::{
    Subject,
    row::{Row, chain},
};
use crate::{
    config::{ClaudeSettings, Config, SandboxKind},
    domain::{rows::Group, run_settings::Provider},
    sandbox::{
        SandboxError,
        docker::{DockerSandbox, Image},
    },
};

/// How long the engine may take over one answer.
const ANSWER: Duration = Duration::from_secs(10);
/// The protocol of our own runner.
const OURS: u32 = ipc_handlers::wire::PROTOCOL;

/// What the engine said of one image.
type OfImage = Result<Image, SandboxError>;

pub(super) async fn check(subject: &Subject, image: Option<String>) -> Vec<Row> {
    let config = &subject.config;
    if config.sandbox == SandboxKind::Process && image.is_none() {
        return in_force(config, subject.daemon.as_ref().map(|d| d.sandbox.as_str()), false);
    }
    let mut images = vec![image.clone().unwrap_or_else(|| config.image.clone())];
    if image.is_none() {
        images.extend(subject.groups.iter().filter_map(|group| group.image.clone()));
        images.sort();
        images.dedup();
    }
    let mut asked = BTreeMap::new();
    for image in images {
        let answer = ask(config, &image).await;
        let away = matches!(answer, Err(SandboxError::Unreachable { .. } | SandboxError::Engine { .. }));
        asked.insert(image, answer);
        if away {
            break;
        }
    }
    let ready = asked.get(&config.image).is_some_and(Result::is_ok);
    let mut rows = judge(config, &asked, &of_claude(config, &subject.groups));
    rows.extend(in_force(config, subject.daemon.as_ref().map(|d| d.sandbox.as_str()), ready));
    rows
}

async fn ask(config: &Config, image: &str) -> OfImage {
    let engine = DockerSandbox::new(config.docker_host.as_deref())?;
    let silent = || SandboxError::Unreachable {
        at: config.docker_host.clone().unwrap_or_else(|| "the usual socket".into()),
        why: format!("no answer within {} s", ANSWER.as_secs()),
    };
    timeout(ANSWER, engine.look_at_image(image)).await.unwrap_or_else(|_| Err(silent()))
}

/// The images in which Claude Code is to run.
fn of_claude<'a>(config: &'a Config, groups: &'a [Group]) -> BTreeSet<&'a str> {
    let drives = |group: &&Group| {
        group.provider.as_deref().unwrap_or(config.provider.name()) == Provider::Claude.name()
    };
    let own = groups.iter().filter(drives).map(|group| group.image.as_deref().unwrap_or(&config.image));
    let all = (config.provider == Provider::Claude).then_some(config.image.as_str());
    own.chain(all).collect()
}

/// Decides on what the engine said; `claude` names the images in which Claude Code is to run.
fn judge(config: &Config, asked: &BTreeMap<String, OfImage>, claude: &BTreeSet<&str>) -> Vec<Row> {
    // Where nothing else is chosen an engine that is away means plain child processes, which the next row tells.
    // Claude Code is not driven as one, so it waits.
    let missing = |check, image: &str, detail: String, fix: String| match config.sandbox {
        SandboxKind::Auto | SandboxKind::Process if config.allow_unsandboxed || !claude.contains(image) => {
            Row::warn(check, detail, fix)
        }
        SandboxKind::Docker | SandboxKind::Auto | SandboxKind::Process => Row::fail(check, detail, fix),
    };
    let mut rows = Vec::new();
    for (image, answer) in asked {
        let reached = Row::ok("docker", format!("it answers{}", host(config)));
        let (engine, of_image) = match answer {
            Err(error @ (SandboxError::Unreachable { .. } | SandboxError::Engine { .. })) => {
                let fix = "start Docker, let this user use its socket (group docker), or set DOCKER_HOST=unix:///path/to/docker.sock";
                (missing("docker", image, format!("{}{}", chain(error), host(config)), fix.into()), None)
            }
            Err(error) => (
                reached,
                Some(missing(
                    "image",
                    image,
                    chain(error),
                    format!(
                        "`container/build.sh {image}` (`--bare` before its name: for the scripted agent alone), or name another in [sandbox] image"
                    ),
                )),
            ),
            Ok(is) => (
                reached,
                Some(image_row(image, is, claude.contains(image.as_str()).then_some(&config.claude))),
            ),
        };
        if !rows.contains(&engine) {
            rows.push(engine);
        }
        rows.extend(of_image);
    }
    rows
}

/// Decides on an image that is there.
///
/// `claude`: how Claude Code is to be driven in it, where it is.
fn image_row(image: &str, is: &Image, claude: Option<&ClaudeSettings>) -> Row {
    if is.protocol < OURS {
        return Row::warn(
            "image",
            format!(
                "{image} is there and announces no protocol: its runner is treated as one of v1, which needs a network and secrets on its stdin"
            ),
            "copy g2-agent into the image and label it g2.protocol=2, as container/Dockerfile shows",
        );
    }
    let holds = is.claude.as_ref().map(|version| format!(", with Claude Code {version}")).unwrap_or_default();
    let said = format!("{image} is there and speaks protocol {}{holds}", is.protocol);
    let wanted = claude.and_then(|claude| claude.version.as_ref());
    if let (Some(wanted), Some(held)) = (wanted, &is.claude)
        && wanted != held
    {
        return Row::fail(
            "image",
            format!("{said}; the settings let only Claude Code {wanted} run, so every run of it fails"),
            format!("set agent.claude.version = \"{held}\", or build the image with that version"),
        );
    }
    if claude.is_some() && is.claude.is_none() {
        return Row::warn(
            "image",
            format!("{said}; Claude Code is to run in it, and it does not say that it holds it"),
            format!(
                "`container/build.sh {image}`, with `--offline` before the name where there is no registry of images"
            ),
        );
    }
    match is.runner.as_deref() {
        Some(agent_runner::ID) => Row::ok("image", said),
        None => Row::ok("image", format!("{said}; it does not say which runner it holds")),
        Some(other) => Row::warn(
            "image",
            format!("{said}; its runner is {other}, and this g2 goes with {}", agent_runner::ID),
            match is.claude {
                Some(_) => format!(
                    "`container/build.sh {image}`, with `--offline` before the name if it was built so"
                ),
                None => format!("`container/build.sh --bare {image}`"),
            },
        ),
    }
}

fn host(config: &Config) -> String {
    config.docker_host.as_deref().map(|host| format!(" (DOCKER_HOST={host})")).unwrap_or_default()
}

/// Decides on what agents run in: what the daemon says, else what it would choose.
fn in_force(config: &Config, said: Option<&str>, docker_is_ready: bool) -> Vec<Row> {
    let kind = said.unwrap_or(match (config.sandbox, docker_is_ready) {
        (SandboxKind::Docker, _) | (SandboxKind::Auto, true) => "docker",
        (SandboxKind::Process, _) | (SandboxKind::Auto, false) => "process",
    });
    if kind == "docker" {
        return vec![Row::ok("sandbox", "agents run in containers")];
    }
    if !config.command.is_empty() && !config.allow_unsandboxed {
        return vec![Row::fail(
            "sandbox",
            format!(
                "agent.command ({}) would run without any sandbox, so the daemon does not start",
                config.command.join(" ")
            ),
            "set sandbox.kind = \"docker\", or sandbox.allow_unsandboxed = true if that is meant",
        )];
    }
    if config.provider == Provider::Claude && !config.allow_unsandboxed {
        return vec![Row::fail(
            "sandbox",
            "there are no containers, and Claude Code runs in nothing else: its messages wait",
            "start Docker and build the image with container/build.sh, or set sandbox.allow_unsandboxed = true if that is meant",
        )];
    }
    vec![Row::warn(
        "sandbox",
        "agents run as plain child processes of this user: no boundary",
        "start Docker, build the image with container/build.sh, set sandbox.kind = \"docker\" and restart",
    )]
}

/// Reads each script that is set, and checks it as the agent will.
pub(super) fn scripts(subject: &Subject) -> Vec<Row> {
    let mut set: BTreeMap<String, Vec<String>> = BTreeMap::new();
    if let Some(script) = &subject.config.script {
        set.entry(script.display().to_string()).or_default().push("[agent] script".into());
    }
    for group in &subject.groups {
        if let Some(script) = &group.script {
            set.entry(script.clone()).or_default().push(format!("group {}", group.folder));
        }
    }
    if set.is_empty() {
        return vec![Row::ok("script", "none is set: the scripted agent echoes")];
    }
    set.into_iter().map(|(script, of)| script_row(&subject.root.join(script), &of.join(", "))).collect()
}

fn script_row(path: &Path, of: &str) -> Row {
    let shown = path.display();
    let text = match crate::root::read_script(path) {
        Ok(text) => text,
        Err(error) => {
            let fix = format!("put the file there, or set another for {of}");
            return Row::fail("script", format!("{shown} ({of}) can't be read: {error}"), fix);
        }
    };
    match agent_runner::provider::check_script(&text) {
        Ok(()) => Row::ok("script", format!("{shown} ({of}) can be followed")),
        Err(error) => Row::fail(
            "script",
            format!("{shown} ({of}): {}", chain(&error)),
            "write a JSON list of {\"when\"?: {\"contains\": …}, \"times\"?: N, \"do\": [step, …]}",
        ),
    }
}
