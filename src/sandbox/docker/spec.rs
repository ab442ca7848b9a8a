//! What a container is asked to be, in the engine's terms.

use std::collections::HashMap;

use bollard::models::{
    ContainerCreateBody, HostConfig, HostConfigLogConfig, Mount as EngineMount, MountType, ResourcesUlimits,
    RestartPolicy, RestartPolicyNameEnum,
};

use crate::sandbox::{Access, Labels, Mount, Network, Spec, Whose};

pub(super) const LABEL_INSTANCE: &str = "g2.instance";
pub(super) const LABEL_GROUP: &str = "g2.group";
pub(super) const LABEL_RUN: &str = "g2.run";
/// `limits.output_bytes`, so that a daemon that adopts the container keeps to it.
pub(super) const LABEL_OUTPUT: &str = "g2.output_bytes";

/// What the log driver adds to a piece of output at most, bytes (30 were seen).
pub(super) const LOG_OVERHEAD: u64 = 48;

/// How much log may be read, bytes: output in normal lines stays below it, very short lines do not.
pub(super) fn log_allowance(output_bytes: u64) -> u64 {
    output_bytes.saturating_mul(4)
}

/// Where the log would rotate: well above the allowance, for bytes that are written before the reader has seen them.
fn log_size(output_bytes: u64) -> u64 {
    log_allowance(output_bytes).saturating_mul(2).saturating_add(64 << 20).min(1 << 50)
}

/// Returns the body of the create request.
pub(super) fn body(spec: &Spec) -> ContainerCreateBody {
    let labels = [
        (LABEL_INSTANCE, spec.instance.clone()),
        (LABEL_GROUP, spec.group.to_string()),
        (LABEL_RUN, spec.run.to_string()),
        (LABEL_OUTPUT, spec.limits.output_bytes.to_string()),
    ];
    let program = spec.command.split_first();
    ContainerCreateBody {
        image: Some(spec.image.clone()),
        entrypoint: program.map(|(program, _)| vec![program.clone()]),
        cmd: program.map(|(_, args)| args.to_vec()),
        env: Some(spec.env.iter().map(|(name, value)| format!("{name}={value}")).collect()),
        labels: Some(owned(labels)),
        hostname: Some("g2".to_owned()),
        user: Some(format!("{}:{}", spec.user.0, spec.user.1)),
        tty: Some(false),
        attach_stdin: Some(true),
        open_stdin: Some(true),
        stdin_once: Some(true),
        stop_signal: Some("SIGTERM".to_owned()),
        host_config: Some(host(spec)),
        ..Default::default()
    }
}

fn host(spec: &Spec) -> HostConfig {
    let limits = &spec.limits;
    let memory = limits.memory_bytes.map(engine_number);
    let log = [
        ("max-size", log_size(limits.output_bytes).to_string()),
        ("max-file", "1".to_owned()),
        // The driver refuses to compress a single file.
        ("compress", "false".to_owned()),
    ];
    HostConfig {
        auto_remove: Some(false),
        restart_policy: Some(RestartPolicy {
            name: Some(RestartPolicyNameEnum::NO),
            maximum_retry_count: None,
        }),
        init: Some(true),
        privileged: Some(false),
        cap_drop: Some(vec!["ALL".to_owned()]),
        security_opt: Some(security(spec.labels)),
        network_mode: Some(network(spec.network)),
        readonly_rootfs: Some(true),
        tmpfs: Some(in_memory(spec)),
        memory,
        // Equal to memory: no swap on top.
        memory_swap: memory,
        nano_cpus: limits.cpus.map(nano_cpus),
        pids_limit: limits.pids.map(engine_number),
        // A core file would land on the host.
        ulimits: Some(vec![ResourcesUlimits { name: Some("core".to_owned()), soft: Some(0), hard: Some(0) }]),
        log_config: Some(HostConfigLogConfig { typ: Some("local".to_owned()), config: Some(owned(log)) }),
        mounts: label(spec.labels).is_none().then(|| spec.mounts.iter().map(mount).collect()),
        binds: label(spec.labels).map(|label| spec.mounts.iter().map(|mount| bind(mount, label)).collect()),
        ..Default::default()
    }
}

fn security(labels: Labels) -> Vec<String> {
    let mut options = vec!["no-new-privileges:true".to_owned()];
    match labels {
        Labels::Off => options.push("label=disable".to_owned()),
        Labels::Keep | Labels::Shared | Labels::Private => {}
    }
    options
}

fn network(network: Network) -> String {
    match network {
        Network::None => "none".to_owned(),
        Network::Open => "bridge".to_owned(),
    }
}

/// Folders in memory: writable, and gone with the container; they count against its memory.
fn in_memory(spec: &Spec) -> HashMap<String, String> {
    let (user, group) = spec.user;
    let tmp = "rw,exec,nosuid,nodev,mode=1777,size=256m".to_owned();
    let own = format!("rw,exec,nosuid,nodev,mode=0700,uid={user},gid={group},size=256m");
    let scratch = spec.scratch.iter().map(|folder| (folder.clone(), own.clone()));
    std::iter::once(("/tmp".to_owned(), tmp)).chain(scratch).collect()
}

/// The letter for a container's own mounts, where mounts are to be relabelled.
fn label(labels: Labels) -> Option<&'static str> {
    match labels {
        Labels::Keep | Labels::Off => None,
        Labels::Shared => Some("z"),
        Labels::Private => Some("Z"),
    }
}

/// A mount with a label is possible in this older form only, in which a missing host folder is made, and in which a
/// colon can't be part of a path: [`unmountable`] is asked first.
fn bind(mount: &Mount, own: &str) -> String {
    let access = match mount.access {
        Access::ReadOnly => "ro",
        Access::ReadWrite => "rw",
    };
    let label = match mount.whose {
        Whose::Own => own,
        Whose::Shared => "z",
    };
    format!("{}:{}:{access},{label}", mount.host.to_string_lossy(), mount.inside)
}

/// Why a mount can't be told to the engine, if so.
pub(super) fn unmountable(spec: &Spec) -> Option<String> {
    let relabelled = label(spec.labels).is_some();
    spec.mounts.iter().find_map(|mount| {
        let path = mount.host.display();
        match mount.host.to_str() {
            None => Some(format!("{path} is no UTF-8")),
            Some(text) if relabelled && text.contains(':') => {
                Some(format!("{path} has a colon, and can't be mounted with a label"))
            }
            Some(_) if relabelled && std::fs::symlink_metadata(&mount.host).is_err() => {
                Some(format!("{path} is not there"))
            }
            Some(_) => None,
        }
    })
}

/// A mount of type `bind`: unlike `binds`, the engine refuses a host folder that is not there.
fn mount(mount: &Mount) -> EngineMount {
    EngineMount {
        typ: Some(MountType::BIND),
        source: Some(mount.host.to_string_lossy().into_owned()),
        target: Some(mount.inside.clone()),
        read_only: Some(match mount.access {
            Access::ReadOnly => true,
            Access::ReadWrite => false,
        }),
        ..Default::default()
    }
}

fn engine_number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn nano_cpus(cpus: f64) -> i64 {
    // A float cast saturates, and NaN becomes 0: unbounded, as the engine has it.
    (cpus * 1e9) as i64
}

fn owned<const N: usize>(pairs: [(&str, String); N]) -> HashMap<String, String> {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
