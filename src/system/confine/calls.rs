//! The calls that a program which is shut in can't make.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter, sock_filter,
};

use super::Reach;

/// Calls that are refused whatever they ask for.
const NEVER: [i64; 10] = [
    // A process leaves its group by them.
    libc::SYS_setsid,
    libc::SYS_setpgid,
    // It would open sockets without another call.
    libc::SYS_io_uring_setup,
    // They reach into other processes of the same user.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    // Keys of the user.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
];
/// The part of a socket's type that is no flag.
const TYPE: u64 = 0xf;

/// From now on this process, and what it starts, stays in its process group, connects to no program of this machine but by an
/// address of the network, and opens no sockets at all if it reaches nobody.
pub(super) fn refuse(reach: Reach) -> Result<(), seccompiler::Error> {
    let denied = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    // A program of another processor's kind is killed at its first call.
    let arch = std::env::consts::ARCH.try_into()?;
    let filter = SeccompFilter::new(rules(reach)?, SeccompAction::Allow, denied, arch)?;
    apply_filter(&BpfProgram::try_from(filter)?)?;
    apply_filter(&other_numbers())
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

fn rules(reach: Reach) -> Result<Rules, seccompiler::BackendError> {
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
    // Limits of other processes of the same user.
    rules.insert(libc::SYS_prlimit64, vec![SeccompRule::new(vec![is(0, Ne, 0)?])?]);
    // Words typed for a person.
    let types = u32::try_from(libc::TIOCSTI).unwrap_or_default();
    let typing = SeccompCondition::new(1, SeccompCmpArgLen::Dword, Eq, u64::from(types))?;
    rules.insert(libc::SYS_ioctl, vec![SeccompRule::new(vec![typing])?]);
    Ok(rules)
}

/// Refuses the calls of programs with short addresses, which are the same by other numbers.
fn other_numbers() -> BpfProgram {
    const FIRST: u32 = 0x4000_0000;
    let step = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    let refused = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
    vec![
        // The number of the call; is it at least the first of these?
        step(0x20, 0, 0, 0),
        step(0x35, 0, 1, FIRST),
        step(0x06, 0, 0, refused),
        step(0x06, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}
