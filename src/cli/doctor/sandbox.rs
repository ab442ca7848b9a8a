//! How agents are run: the engine, the images, the boundary, and what the scripted agent follows.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tokio::time::timeout;

use super::{
    Subject,
    row::{Row, chain},
};
use crate::{
    config::{Config, SandboxKind},
    domain::{
        machine::image::ImageKind,
        problems::{Problem, checks::Check, mend::Mend},
        rows::Group,
        runs::run_settings::Provider,
        shown::screen::address,
        states::SandboxName,
    },
    loops::problems::{image_fault, look_at_image, scripts_set},
    sandbox::{SandboxError, docker::Image},
};

/// How long the engine may take over one answer.
const ANSWER: Duration = Duration::from_secs(10);

/// The names of images that `g2 image build` makes begin so.
const OUR_IMAGES: &str = "g2-agent";

/// What the engine said of one image.
type OfImage = Result<Image, SandboxError>;

pub(super) async fn check(subject: &Subject, image: Option<String>) -> Vec<Row> {
    let config = &subject.config;
    let said = subject.daemon.as_ref().map(|daemon| daemon.sandbox.as_str());
    // A daemon whose settings are not these runs agents as it says, and nobody knows what for.
    let says_process = said == Some(SandboxName::Process.as_str()) && !subject.are_the_daemons;
    if (config.sandbox.kind == SandboxKind::Process || says_process) && image.is_none() {
        return vec![in_force(config, said, Ready::NotAsked)];
    }
    let mut images = vec![image.clone().unwrap_or_else(|| config.sandbox.image.clone())];
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
    let ready =
        if asked.get(&config.sandbox.image).is_some_and(Result::is_ok) { Ready::Yes } else { Ready::No };
    let mut rows = judge(config, &asked, &of_claude(config, &subject.groups));
    if image.is_none() {
        rows.push(in_force(config, said, ready));
    }
    rows
}

/// Whether the engine answers and has the settings' image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ready {
    Yes,
    No,
    /// The settings want none.
    NotAsked,
}

async fn ask(config: &Config, image: &str) -> OfImage {
    let silent = || SandboxError::Unreachable {
        at: config.docker_host.clone().unwrap_or_else(|| "the usual socket".into()),
        why: format!("no answer within {} s", ANSWER.as_secs()),
    };
    timeout(ANSWER, look_at_image(config, image)).await.unwrap_or_else(|_| Err(silent()))
}

/// The images in which Claude Code is to run.
fn of_claude<'a>(config: &'a Config, groups: &'a [Group]) -> BTreeSet<&'a str> {
    let drives = |group: &&Group| {
        group.provider.as_deref().unwrap_or(config.agent.provider.as_str()) == Provider::Claude.as_str()
    };
    let own =
        groups.iter().filter(drives).map(|group| group.image.as_deref().unwrap_or(&config.sandbox.image));
    let all = (config.agent.provider == Provider::Claude).then_some(config.sandbox.image.as_str());
    own.chain(all).collect()
}

/// Decides on what the engine said; `claude` names the images in which Claude Code is to run.
fn judge(config: &Config, asked: &BTreeMap<String, OfImage>, claude: &BTreeSet<&str>) -> Vec<Row> {
    // Where nothing else is chosen an engine that is away means plain child processes, which the next row tells.
    // Claude Code is not driven as one, so it waits.
    let missing = |check, image: &str, detail: String, fix: String| match config.sandbox.kind {
        SandboxKind::Auto | SandboxKind::Process
            if config.sandbox.allow_unsandboxed || !claude.contains(image) =>
        {
            Row::warn(check, detail, fix)
        }
        SandboxKind::Docker | SandboxKind::Auto | SandboxKind::Process => Row::fail(check, detail, fix),
    };
    let mut rows = Vec::new();
    for (image, answer) in asked {
        let reached = Row::ok(Check::Docker, format!("it answers{}", host(config)));
        let (engine, of_image) = match answer {
            Err(
                error @ (SandboxError::Unreachable { .. }
                | SandboxError::Machine { .. }
                | SandboxError::Engine { .. }),
            ) => {
                let fix = "start Docker, let this user use its socket (group docker), or set DOCKER_HOST=unix:///path/to/docker.sock";
                (missing(Check::Docker, image, format!("{}{}", chain(error), host(config)), fix.into()), None)
            }
            Err(error) => (
                reached,
                Some(missing(
                    Check::Image,
                    image,
                    chain(error),
                    format!(
                        "build it with `g2 image build {image}` (`g2 image build --bare {image}` for the scripted agent alone), or set sandbox.image to another"
                    ),
                )),
            ),
            Ok(is) => (reached, Some(image_row(config, image, is, claude.contains(image.as_str())))),
        };
        if !rows.contains(&engine) {
            rows.push(engine);
        }
        // Only an image of the usual name is ours to build.
        let kind = if claude.contains(image.as_str()) { ImageKind::Full } else { ImageKind::Bare };
        let can_mend = matches!(answer, Err(SandboxError::NoImage { .. })) && image.starts_with(OUR_IMAGES);
        let of_image = of_image.map(|row| row.of(image));
        rows.extend(of_image.map(|row| match can_mend {
            true => row.mended_by(Mend::BuildImage(kind, image.clone())),
            false => row,
        }));
    }
    rows
}

/// Decides on an image that is there. `claude`: whether Claude Code is to run in it.
fn image_row(config: &Config, image: &str, is: &Image, claude: bool) -> Row {
    if let Some(fault) = image_fault(config, is, claude) {
        return Row::Found(
            Problem::OddImage { image: image.to_owned(), fault, groups: Vec::new() }.finding(),
        );
    }
    let holds = is.claude.as_ref().map(|version| format!(", with Claude Code {version}")).unwrap_or_default();
    let runner = if is.runner.is_none() { "; no label says which runner it has" } else { "" };
    Row::ok(Check::Image, format!("{image} speaks protocol {}{holds}{runner}", is.protocol))
}

fn host(config: &Config) -> String {
    config.docker_host.as_deref().map(|host| format!(" (DOCKER_HOST={})", address(host))).unwrap_or_default()
}

/// Decides on what agents run in: what the daemon says, otherwise what it would choose.
fn in_force(config: &Config, said: Option<&str>, ready: Ready) -> Row {
    let kind = said.unwrap_or(match (config.sandbox.kind, ready) {
        (SandboxKind::Docker, _) | (SandboxKind::Auto, Ready::Yes) => "docker",
        (SandboxKind::Process, _) | (SandboxKind::Auto, Ready::No | Ready::NotAsked) => "process",
    });
    if kind == "docker" {
        return Row::ok(Check::Sandbox, "agents run in containers");
    }
    if !config.agent.command.is_empty() && !config.sandbox.allow_unsandboxed {
        return Row::fail(
            Check::Sandbox,
            format!(
                "agent.command ({}) would run without any sandbox, so the daemon does not start",
                config.agent.command.join(" ")
            ),
            "set sandbox.kind = \"docker\", or allow this with sandbox.allow_unsandboxed = true",
        );
    }
    if let (Some(what), false) = (config.agent.provider.foreign(), config.sandbox.allow_unsandboxed) {
        if config.sandbox.kind == SandboxKind::Auto {
            return Row::ok(Check::Sandbox, "agents run in containers as soon as Docker works");
        }
        return Row::fail(
            Check::Sandbox,
            format!("{what} would run without any sandbox, so the daemon does not start"),
            "set sandbox.kind = \"docker\", or allow this with sandbox.allow_unsandboxed = true",
        );
    }
    let detail = "agents run as plain child processes of this user: no boundary";
    match (ready, said) {
        // The reason has a row of its own, with its fix.
        (Ready::No, _) => {
            Row::ok(Check::Sandbox, format!("{detail}, because Docker or its image is missing"))
        }
        (Ready::Yes, Some(_)) => Row::warn(
            Check::Sandbox,
            format!("{detail}; Docker or the image was missing when the daemon started"),
            "restart the daemon",
        ),
        (Ready::Yes, None) | (Ready::NotAsked, _) => Row::warn(
            Check::Sandbox,
            detail,
            "set sandbox.kind = \"docker\" and restart; then `g2 doctor` says whether Docker and the image work",
        ),
    }
}

/// The scripts that are set and can be followed; the others are problems of the list.
pub(super) fn scripts(subject: &Subject) -> Vec<Row> {
    let set = scripts_set(&subject.config, &subject.groups);
    if set.is_empty() {
        return vec![Row::ok(Check::Script, "none is set: the scripted agent echoes")];
    }
    let paths =
        set.into_iter().map(|(script, (of, _))| (subject.root.join(script).display().to_string(), of));
    paths
        .map(|(path, of)| {
            Row::ok(Check::Script, format!("{path} ({}) can be followed", of.join(", "))).of(path)
        })
        .collect()
}
