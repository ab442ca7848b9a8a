//! The calls that a program which is shut in can't make.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter, sock_filter,
};

use super::Reach;

/// Who a program that is shut in runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum User {
    /// The daemon's files are its user's.
    Daemons,
    Another,
}

/// Calls that are refused whatever they ask for.
const NEVER: [i64; 20] = [
    // A process leaves its group by them.
    libc::SYS_setsid,
    libc::SYS_setpgid,
    // It would open sockets without another call.
    libc::SYS_io_uring_setup,
    // They reach into other processes of the same user.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_perf_event_open,
    // Keys of the user.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Rights that an ordinary user has in namespaces of its own, and parts of the kernel that few programs use.
    libc::SYS_setns,
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    // Memory that is no process'.
    libc::SYS_shmget,
];
/// Calls that change a file by its name: Landlock holds none of them, so that a program with the daemon's user would change the
/// daemon's. Some processors have fewer.
const BY_NAME: &[i64] = &[
    libc::SYS_truncate,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    SETXATTRAT,
    REMOVEXATTRAT,
    FILE_SETATTR,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
];
// Newer than the library's numbers; the same for every processor.
const FCHMODAT2: i64 = 452;
const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;
const FILE_SETATTR: i64 = 469;
/// The namespaces that a process may ask for with a new one; by `unshare` that of time, too.
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];
/// All processes of a user, to `setpriority` and to `ioprio_set`.
const PRIO_USER: i32 = 2;
const IOPRIO_USER: i32 = 3;
/// The part of a socket's type that is no flag.
const TYPE: u64 = 0xf;

/// From now on this process, and what it starts, stays in its process group, connects to no program of this machine but by an
/// address of the network, and opens no sockets at all if it reaches nobody. With the daemon's user it changes no file by its name
/// beyond what Landlock lets it.
pub(super) fn refuse(reach: Reach, user: User) -> Result<(), seccompiler::Error> {
    let denied = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    // A program of another processor's kind is killed at its first call.
    let arch = std::env::consts::ARCH.try_into()?;
    let filter = SeccompFilter::new(rules(reach, user)?, SeccompAction::Allow, denied, arch)?;
    apply_filter(&BpfProgram::try_from(filter)?)?;
    apply_filter(&unheard_of())
}

/// Closes, once this process becomes another program, all files but the three that it is given: the program that started the
/// daemon may have left some open. A kernel before 5.11 can't; the daemon's own are closed all the same.
#[expect(unsafe_code, reason = "close_range is reached through libc only")]
pub(super) fn close_files() {
    const FIRST: libc::c_uint = 3;
    // SAFETY: takes three integers, and closes nothing now.
    unsafe {
        libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC);
    }
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn rules(reach: Reach, user: User) -> Result<Rules, seccompiler::BackendError> {
    use SeccompCmpOp::{Eq, MaskedEq, Ne};
    let mut rules: Rules = NEVER.iter().map(|call| (*call, Vec::new())).collect();
    let is = |argument, how, value: i32| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, how, u64::from(value.unsigned_abs()))
    };
    let sockets = match reach {
        Reach::Nobody => Vec::new(),
        Reach::Network => vec![
            SeccompRule::new(vec![
                is(0, Ne, libc::AF_INET)?,
                is(0, Ne, libc::AF_INET6)?,
                is(0, Ne, libc::AF_NETLINK)?,
            ])?,
            // Of all that the kernel tells by it, programs need the addresses and routes.
            SeccompRule::new(vec![is(0, Eq, libc::AF_NETLINK)?, is(2, Ne, libc::NETLINK_ROUTE)?])?,
        ],
    };
    rules.insert(libc::SYS_socket, sockets);
    // Two ends that know each other reach nobody else, but for those of datagrams.
    let pairs = vec![
        SeccompRule::new(vec![is(0, Ne, libc::AF_UNIX)?])?,
        SeccompRule::new(vec![is(1, MaskedEq(TYPE), libc::SOCK_DGRAM)?])?,
        SeccompRule::new(vec![is(1, MaskedEq(TYPE), libc::SOCK_RAW)?])?,
    ];
    rules.insert(libc::SYS_socketpair, pairs);
    // Limits, processors and turns of other processes of the same user.
    for call in [
        libc::SYS_prlimit64,
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setattr,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setscheduler,
    ] {
        rules.insert(call, vec![SeccompRule::new(vec![is(0, Ne, 0)?])?]);
    }
    for (call, all_of_user) in [(libc::SYS_setpriority, PRIO_USER), (libc::SYS_ioprio_set, IOPRIO_USER)] {
        let others = SeccompRule::new(vec![is(1, Ne, 0)?])?;
        rules.insert(call, vec![others, SeccompRule::new(vec![is(0, Eq, all_of_user)?])?]);
    }
    for call in [libc::SYS_clone, libc::SYS_unshare] {
        let asks_for = |flag: libc::c_int| {
            let flag = u64::from(flag.cast_unsigned());
            SeccompRule::new(vec![SeccompCondition::new(0, SeccompCmpArgLen::Dword, MaskedEq(flag), flag)?])
        };
        rules.insert(call, NAMESPACES.into_iter().map(asks_for).collect::<Result<_, _>>()?);
    }
    if user == User::Daemons {
        rules.extend(BY_NAME.iter().map(|call| (*call, Vec::new())));
        // Without a name it changes a file that is open.
        let has_name = SeccompCondition::new(1, SeccompCmpArgLen::Qword, Ne, 0)?;
        rules.insert(libc::SYS_utimensat, vec![SeccompRule::new(vec![has_name])?]);
    }
    // Words typed for a person.
    let types = u32::try_from(libc::TIOCSTI).unwrap_or_default();
    let typing = SeccompCondition::new(1, SeccompCmpArgLen::Dword, Eq, u64::from(types))?;
    rules.insert(libc::SYS_ioctl, vec![SeccompRule::new(vec![typing])?]);
    Ok(rules)
}

/// Refuses the calls of programs with short addresses, which are the same by other numbers, and the newer way to begin a process,
/// of which a filter can't see what it asks for. A program that is told that there is none uses the older one.
fn unheard_of() -> BpfProgram {
    const FIRST: u32 = 0x4000_0000;
    const CLONE3: u32 = 435;
    let step = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    let refused = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
    vec![
        // The number of the call; is it at least the first of these, or that one?
        step(0x20, 0, 0, 0),
        step(0x35, 1, 0, FIRST),
        step(0x15, 0, 1, CLONE3),
        step(0x06, 0, 0, refused),
        step(0x06, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}
