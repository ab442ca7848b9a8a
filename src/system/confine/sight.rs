//! The files that a program which is shut in may see: those that any program needs, and those that it is given.

#![expect(clippy::disallowed_methods, reason = "looks at the machine's own files")]

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Where programs, their libraries and their data lie.
const PROGRAMS: [&str; 9] = [
    "/usr",
    "/lib",
    "/lib64",
    "/bin",
    "/sbin",
    "/opt",
    "/nix/store",
    "/run/systemd/resolve",
    "/sys/devices/system/cpu",
];
/// What programs read below `/etc`: no keys, no passwords, and nothing of other services.
const SETTINGS: [&str; 38] = [
    "alternatives",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "fonts",
    "gai.conf",
    "group",
    "host.conf",
    "hostname",
    "hosts",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "ld.so.preload",
    "locale.alias",
    "localtime",
    "magic",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "pki/ca-trust",
    "pki/tls/cert.pem",
    "pki/tls/certs",
    "pki/tls/openssl.cnf",
    "protocols",
    "resolv.conf",
    "rpc",
    "services",
    "ssl/ca-bundle.pem",
    "ssl/cert.pem",
    "ssl/certs",
    "ssl/openssl.cnf",
    "static",
    "terminfo",
    "timezone",
    "vulkan",
    "OpenCL",
];
/// Settings of languages, whose names end with a version.
const LANGUAGES: [&str; 7] = ["python", "java", "node", "perl", "ruby", "php", "ImageMagick"];
/// What can be read of the kernel where processes of others would be seen in `/proc`: nothing of any other process.
const KERNEL: [&str; 10] = [
    "/proc/self",
    "/proc/sys",
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/uptime",
    "/proc/version",
    "/proc/vmstat",
];
/// Devices, which can be written to as well. A terminal is none of them: who writes to it might type for a person.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];
/// Files of `/etc` that programs read again while they run, and that other programs put there anew.
const READ_AGAIN: [&str; 2] = ["/etc/resolv.conf", "/etc/hosts"];

/// What a program may read, and what it may write.
#[derive(Debug, Default)]
pub(super) struct Sight {
    pub(super) reads: Vec<PathBuf>,
    pub(super) writes: Vec<PathBuf>,
}

impl Sight {
    /// What every program may see, beside `/proc`.
    pub(super) fn of_all() -> Self {
        let etc = Path::new("/etc");
        let mut reads: Vec<PathBuf> = PROGRAMS.iter().map(PathBuf::from).collect();
        reads.extend(SETTINGS.iter().map(|name| etc.join(name)));
        for entry in fs::read_dir(etc).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if name.to_str().is_some_and(|name| LANGUAGES.iter().any(|language| name.starts_with(language))) {
                reads.push(entry.path());
            }
        }
        // Where it is a link out of `/etc`, its file is often replaced.
        let resolver = fs::canonicalize(etc.join("resolv.conf")).ok().filter(|path| path.starts_with("/run"));
        reads.extend(resolver.as_deref().and_then(Path::parent).map(Path::to_owned));
        Self { reads, writes: DEVICES.iter().map(PathBuf::from).collect() }
    }

    /// Adds what a process may know of itself and of the kernel, but of no other process.
    pub(super) fn add_own_proc(&mut self) {
        self.reads.extend(KERNEL.iter().map(PathBuf::from));
    }
}

/// Returns the files of `/etc` that a program can no longer read once another file has their name: what they are now.
pub(in crate::system) fn read_again() -> Vec<(PathBuf, Option<(u64, u64)>)> {
    let stays =
        |path: &PathBuf| fs::canonicalize(path).is_ok_and(|real| real.parent() == Some(Path::new("/etc")));
    READ_AGAIN.iter().map(PathBuf::from).filter(stays).map(|path| (path.clone(), identity(&path))).collect()
}

/// Which file has this name.
pub(in crate::system) fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}
