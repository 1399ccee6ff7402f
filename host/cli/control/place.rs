//! Where control sockets are: a folder that is this user's alone, and names that nobody else takes.

use std::fs::{DirBuilder, Permissions};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::environment;
use crate::own_folder;

/// The longest path of a socket, bytes: `sun_path` of unix(7) less its closing NUL.
const PATH_LIMIT: usize = 107;
/// What a name of ours takes of it at most: `/4194304-0123456789abcdef.sock`.
const NAME_LIMIT: usize = 30;
const EXTENSION: &str = "sock";
/// A socket that nobody listens to is left alone so long: it may be one that is being made.
const YOUNG: Duration = Duration::from_mins(1);
/// How many entries of a folder are looked at.
const ENTRIES: usize = 4096;

/// A socket that is bound and listens, and where. The file is removed when the value is dropped.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) listener: UnixListener,
    pub(crate) path: PathBuf,
}

impl Socket {
    /// Binds a socket (mode 0600) in the first folder that can be had: `$XDG_RUNTIME_DIR/taskscope`, `taskscope-UID` in the
    /// temp directory; where both paths are too long, in /tmp. The error has the reason of each.
    pub(crate) fn bind() -> Result<Self, String> {
        let mut reasons = Vec::new();
        for folder in folders() {
            match make(&folder).and_then(|()| bind_in(&folder)) {
                Ok(socket) => return Ok(socket),
                Err(error) => reasons.push(format!("{}: {error}", folder.display())),
            }
        }
        Err(reasons.join("; "))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        _ = std::fs::remove_file(&self.path); // it may be gone already
    }
}

/// Returns the sockets in this user's folders.
pub(crate) fn sockets() -> Vec<PathBuf> {
    let folders = folders();
    let ours = folders
        .iter()
        .filter(|folder| own_folder::is_ours_alone(folder));
    let mut sockets: Vec<PathBuf> = ours.flat_map(|folder| entries(folder)).collect();
    sockets.sort();
    sockets.dedup();
    sockets
}

/// Removes what dead collectors left beside `socket`.
pub(crate) fn clean(socket: &Socket) {
    let folder = socket.path.parent().unwrap_or(Path::new("/"));
    let Ok(born) = std::fs::metadata(&socket.path).and_then(|facts| facts.modified()) else {
        return;
    };
    for path in entries(folder) {
        let modified = std::fs::symlink_metadata(&path).and_then(|facts| facts.modified());
        let age = modified
            .ok()
            .and_then(|modified| born.duration_since(modified).ok());
        if path != socket.path && age.is_some_and(|age| age >= YOUNG) && is_dead(&path) {
            _ = std::fs::remove_file(&path); // another collector may be faster
        }
    }
}

/// Whether nobody listens there. A listener with a full queue would block: it is asked without waiting.
fn is_dead(path: &Path) -> bool {
    let refused = connect(path).err().map(|error| error.kind());
    refused == Some(io::ErrorKind::ConnectionRefused)
}

/// Connects without waiting for a place in the queue.
pub(crate) fn connect(path: &Path) -> io::Result<UnixStream> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(UnixStream::from(socket))
}

/// The folders that may be used, the best first.
fn folders() -> Vec<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let runtime = environment::os("XDG_RUNTIME_DIR").map(PathBuf::from);
    // After `su` it is still the other user's.
    let runtime = runtime.filter(|path| {
        path.is_absolute() && std::fs::metadata(path).is_ok_and(|facts| facts.uid() == user)
    });
    let temporary = own_folder::in_directory(&std::env::temp_dir());
    let wanted = runtime.map(|path| path.join("taskscope"));
    let mut folders: Vec<PathBuf> = wanted.into_iter().chain([temporary]).collect();
    folders.retain(|path| path.is_absolute() && path.as_os_str().len() + NAME_LIMIT <= PATH_LIMIT);
    if folders.is_empty() {
        folders.push(own_folder::in_directory(Path::new("/tmp")));
    }
    folders
}

/// Makes the folder where it is missing; one that somebody else made is not used.
fn make(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ if own_folder::is_ours_alone(folder) => Ok(()),
        _ => Err(io::Error::other(
            "it is not a folder of this user with mode 0700",
        )),
    }
}

fn bind_in(folder: &Path) -> io::Result<Socket> {
    let random = std::hash::RandomState::new().build_hasher().finish();
    let name = format!("{}-{random:016x}.{EXTENSION}", std::process::id());
    let path = folder.join(name);
    let listener = UnixListener::bind(&path)?;
    let socket = Socket { listener, path };
    std::fs::set_permissions(&socket.path, Permissions::from_mode(0o600))?;
    socket.listener.set_nonblocking(true)?;
    Ok(socket)
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.take(ENTRIES).map(|entry| entry.path());
    paths
        .filter(|path| path.extension().is_some_and(|it| it == EXTENSION))
        .collect()
}
