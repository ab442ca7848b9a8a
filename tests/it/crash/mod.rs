//! The daemon dies, and the next one finds what the design promises.
//!
//! A debug build of the real `g2 serve` ends itself by SIGKILL at a named step (`src/system/failpoint.rs`), or is killed at
//! any moment; another one is started on the same root; then files, receipts, outbox and ledger are compared with the
//! crash tables of the design. Never a fake daemon, never a step that is skipped because it is hard to reach.
//!
//! | file | what dies where |
//! |---|---|
//! | `commands` | a command file, at each step from its box to `done/`; one of each kind, where that matters |
//! | `order` | several files, and files that a lost rename puts back |
//! | `approvals` | a question to the owner, at each step from the stranger's message to its answer |
//! | `feed` | anything, before and after each commit, while somebody follows the feed of changes |
//! | `messages` | a message, at each step to its answer; agents are child processes |
//! | `docker` | the same with containers, which outlive the daemon and are adopted |
//! | `power` | the disk stops behind a commit; the file system is what its journal says |
//! | `pending` | a daemon or an agent, while messages wait or were piped and not read |
//! | `random` | anything, any time, many times |
//! | `forgetful` | the same with the power: what was not synced is forgotten by a seed |
//! | `stops` | a person who ends a run, passes a message over, gives a text up, writes to a run, stops with agents |
//! | `syscalls` | nothing: the order of commit, reply and removal, as the kernel was asked for it |
//! | `roots` | two daemons, a copied root, an old socket |

mod approvals;
mod client;
mod commands;
mod crowd;
mod docker;
mod feed;
mod forgetful;
mod ledger;
mod messages;
mod order;
mod pending;
mod power;
mod random;
mod retried;
mod roots;
pub(crate) mod scene;
mod stops;
mod syscalls;
