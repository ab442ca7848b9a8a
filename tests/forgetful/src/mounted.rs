//! A disk that is mounted, and loses its power.
//!
//! Requests of the kernel go to `fuser` by way of a socket, as it does not know all of them: one for a file without a name
//! becomes one to create a file whose name is a slash, and `syncfs` becomes a sync of a folder by a handle that none has.
#![expect(clippy::disallowed_methods, reason = "a file system has the clock")]

use std::{
    ffi::CString,
    io::IoSlice,
    os::fd::{AsFd as _, AsRawFd as _, OwnedFd},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::SystemTime,
};

use fuser::{BackgroundSession, Config, Session, SessionACL};
use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{Mode, OFlags},
    io::Errno,
    mount::{MountFlags, UnmountFlags, mount, unmount},
    net::{
        AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, recv, send, shutdown,
        socketpair, sockopt::set_socket_send_buffer_size,
    },
};

use crate::{
    device::Device,
    disk::{Body, Disk, Forgotten, Place, ROOT, Refused, Rights},
    faults::Faults,
    random::Random,
    serve::{ALL, Served, Shared},
};

/// Room for the largest request, and the largest answer.
const ROOM: usize = 256 << 10;
/// Requests of the kernel's protocol: to create a file, and to make one without a name. Both have the same arguments.
const CREATE: u32 = 35;
const TMPFILE: u32 = 51;
/// To sync everything, which has eight bytes that mean nothing; and to sync a folder by its handle and flags.
const SYNCFS: u32 = 50;
const FSYNCDIR: u32 = 30;
/// Where a request's own arguments begin.
const ARGUMENTS: usize = 40;

/// Why there is no such file system.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// `/dev/fuse` is not there, or not for this user.
    #[error("no FUSE: opening /dev/fuse failed")]
    NoDevice(#[source] Errno),
    /// This user may not mount, or the kernel has no FUSE.
    #[error("no FUSE: mounting at {0} failed")]
    NotMounted(PathBuf, #[source] Errno),
    /// The socket between the kernel and us.
    #[error("making a socket failed")]
    NoSocket(#[source] Errno),
    /// The kernel does not speak with us.
    #[error("no FUSE: the kernel's greeting failed")]
    NoGreeting(#[source] std::io::Error),
}

struct Line {
    /// Where the kernel takes it to lie; `None`: nowhere, so that it does not tell of `syncfs`.
    on: Option<Device>,
    session: Option<BackgroundSession>,
    ours: OwnedFd,
    threads: Vec<JoinHandle<()>>,
}

/// A disk at a folder.
pub struct Forgetful {
    at: PathBuf,
    shared: Arc<Mutex<Shared>>,
    line: Option<Line>,
}

impl Forgetful {
    /// Mounts a disk over a folder.
    ///
    /// # Errors
    /// [`Failed`].
    pub fn mount(disk: Disk, at: &Path) -> Result<Self, Failed> {
        let shared = Arc::new(Mutex::new(Shared::new(disk)));
        let mut mounted = Self { at: at.to_owned(), shared, line: None };
        mounted.connect()?;
        Ok(mounted)
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the disk, or changes it behind the kernel's back.
    pub fn with<T>(&self, look: impl FnOnce(&mut Disk) -> T) -> T {
        look(&mut self.lock().disk)
    }

    /// Puts a file at a path below the folder, as nobody on this machine does: the kernel makes no event of it, and finds it when
    /// it looks. No name may have been there under this kernel.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn put_unseen(&self, path: &Path, bytes: &[u8], rights: Rights) -> Result<(), Refused> {
        let (folders, name) = (path.parent().unwrap_or(Path::new("")), path.file_name().unwrap_or_default());
        self.with(|disk| {
            let folder = folders
                .iter()
                .try_fold(ROOT, |folder, name| disk.seen().named(&Place::new(folder, name)))
                .ok_or(Refused::Missing)?;
            let now = SystemTime::now();
            let ino = disk.create(Place::new(folder, name), Body::File(Vec::new()), rights, now)?;
            disk.write(ino, 0, bytes, now)
        })
    }

    /// Says what is to go wrong.
    pub fn faults<T>(&self, set: impl FnOnce(&mut Faults) -> T) -> T {
        set(&mut self.lock().faults)
    }

    /// Whether the kernel tells it of `syncfs`. Otherwise that makes nothing durable here.
    #[must_use]
    pub fn hears_of_syncfs(&self) -> bool {
        self.line.as_ref().is_some_and(|line| line.on.is_some())
    }

    /// Switches the power off and on again: what was not synced is there or not, as the seed says. Programs that had files
    /// open have them no more, so they should be dead.
    ///
    /// # Errors
    /// [`Failed`] where it can't be mounted again.
    pub fn lose_power(&mut self, seed: u64) -> Result<Forgotten, Failed> {
        self.disconnect();
        let forgotten = self.with(|disk| disk.lose_power(&mut Random::new(seed)));
        self.connect()?;
        Ok(forgotten)
    }

    /// Unmounts in order: all of it is on the disk.
    #[must_use]
    pub fn unmount(mut self) -> Disk {
        // What is mapped is written as the folder is unmounted, where nobody has it in use.
        let _ = unmount(&self.at, UnmountFlags::empty());
        self.disconnect();
        self.with(|disk| {
            disk.sync_all();
            disk.clone()
        })
    }

    fn connect(&mut self) -> Result<(), Failed> {
        let device = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
            .map_err(Failed::NoDevice)?;
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .map_err(Failed::NoSocket)?;
        for socket in [&ours, &theirs] {
            set_socket_send_buffer_size(socket, 4 * ROOM).map_err(Failed::NoSocket)?;
        }
        let user = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let options = format!(
            "fd={},rootmode=40000,user_id={},group_id={},allow_other,default_permissions",
            device.as_raw_fd(),
            user.0,
            user.1
        );
        let mount_as = |kind: &str, source: &str, options: String| {
            let options = CString::new(options).unwrap_or_default(); // Digits and words.
            mount(source, &self.at, kind, MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())
        };
        // Each time another one: a file system that somebody has still open keeps its device.
        let on = Device::new()
            .filter(|on| mount_as("fuseblk", on.path(), format!("{options},blksize=4096")).is_ok());
        if on.is_none() {
            mount_as("fuse", "forgetful", options).map_err(|e| Failed::NotMounted(self.at.clone(), e))?;
        }
        self.lock().boot();
        let device = Arc::new(device);
        let ours_too = ours.try_clone().map_err(Failed::NoGreeting)?;
        let ours_in = ours.try_clone().map_err(Failed::NoGreeting)?;
        let device_too = Arc::clone(&device);
        let threads = vec![
            std::thread::spawn(move || requests(&device, &ours_too)),
            std::thread::spawn(move || answers(&ours_in, &device_too)),
        ];
        let mut line = Line { on, session: None, ours, threads };
        let greeted =
            Session::from_fd(Served(Arc::clone(&self.shared)), theirs, SessionACL::All, Config::default())
                .and_then(Session::spawn);
        match greeted {
            Ok(session) => {
                line.session = Some(session);
                self.line = Some(line);
                Ok(())
            }
            Err(e) => {
                self.line = Some(line);
                self.disconnect();
                Err(Failed::NoGreeting(e))
            }
        }
    }

    /// From here on nothing reaches the disk.
    fn disconnect(&mut self) {
        self.lock().off = true;
        let Some(line) = self.line.take() else { return };
        let _ = unmount(&self.at, UnmountFlags::DETACH);
        let _ = shutdown(&line.ours, Shutdown::Both);
        drop(line.ours);
        for thread in line.threads {
            let _ = thread.join();
        }
        if let Some(session) = line.session {
            // It ends with an error, as nobody asks it any more.
            let _ = session.join();
        }
    }
}

impl Drop for Forgetful {
    fn drop(&mut self) {
        self.disconnect();
    }
}

/// Passes requests on until either side is gone.
fn requests(device: &OwnedFd, to: &OwnedFd) {
    let mut buffer = vec![0; ROOM];
    loop {
        let mut both = [PollFd::new(device, PollFlags::IN), PollFd::new(to, PollFlags::empty())];
        match poll(&mut both, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
        if both[1].revents().intersects(PollFlags::HUP | PollFlags::ERR) {
            return;
        }
        if both[0].revents().is_empty() {
            continue;
        }
        let read = match rustix::io::read(device, &mut buffer[..]) {
            Ok(read) => read,
            // A request that was taken back.
            Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => continue,
            Err(_) => {
                // It is unmounted.
                let _ = shutdown(to, Shutdown::Both);
                return;
            }
        };
        let read = known(&mut buffer, read);
        if send(to, &buffer[..read], SendFlags::NOSIGNAL).is_err() {
            return;
        }
    }
}

/// Makes a request that `fuser` does not know into one that it knows; returns its length.
fn known(buffer: &mut [u8], read: usize) -> usize {
    // Length, then what is asked for.
    let asked = buffer[4..8].try_into().map_or(0, u32::from_ne_bytes);
    match asked {
        TMPFILE => buffer[4..8].copy_from_slice(&CREATE.to_ne_bytes()),
        SYNCFS => {
            let end = ARGUMENTS + 16;
            buffer[..4].copy_from_slice(&(end as u32).to_ne_bytes());
            buffer[4..8].copy_from_slice(&FSYNCDIR.to_ne_bytes());
            buffer[ARGUMENTS..ARGUMENTS + 8].copy_from_slice(&ALL.to_ne_bytes());
            buffer[ARGUMENTS + 8..end].fill(0);
            return end;
        }
        _ => {}
    }
    read
}

/// Passes answers back until either side is gone.
fn answers(from: &OwnedFd, device: &OwnedFd) {
    let mut buffer = vec![0; ROOM];
    while let Ok((read, _)) = recv(from, &mut buffer[..], RecvFlags::empty()) {
        if read == 0 {
            return;
        }
        // A request that was given up has no place for its answer.
        let _ = rustix::io::writev(device.as_fd(), &[IoSlice::new(&buffer[..read])]);
    }
}
