//! The memories that the collector handed to this helper, which may not open them itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use model::ProcessId;
use rustix::io::Errno;

use super::service::{Service, Sink};
use super::wire::{Job, Task};
use crate::helper::passing;
use crate::proc::reader::read_link;
use crate::proc::stat;
use crate::sight::Generation;

/// By process, with the exec that the memory is of: that of an earlier one is gone.
#[derive(Default)]
pub(super) struct Handed(BTreeMap<ProcessId, (Generation, Arc<File>)>);

impl Handed {
    /// Closes those of processes that a capture does not ask for any more. Its first request names all.
    pub(super) fn keep(&mut self, jobs: &[Job]) {
        let is_first = |job: &Job| matches!(job.task, Task::Image { .. });
        if !self.0.is_empty() && jobs.iter().any(is_first) {
            let ids: BTreeSet<ProcessId> = jobs.iter().map(|job| job.id).collect();
            self.0.retain(|id, _| ids.contains(id));
        }
    }
}

/// Opens the memory at `path` below the directory of the process `id`, or has it opened by the collector.
pub(super) fn open(
    service: &mut Service,
    directory: BorrowedFd<'_>,
    id: ProcessId,
    path: &str,
    sink: &mut Sink<'_>,
) -> io::Result<Arc<File>> {
    let error = match passing::open_memory(directory, path) {
        Ok(file) => return Ok(Arc::new(file)),
        Err(error) if passing::is_refusal(&error) => error,
        Err(error) => return Err(error),
    };
    let before = generation(service, directory, id)?;
    if let Some((generation, file)) = service.handed.0.get(&id)
        && before.as_ref() == Some(generation)
    {
        return Ok(Arc::clone(file));
    }
    service.handed.0.remove(&id);
    let file = Arc::new(sink.ask_for_memory().ok_or(error)?);
    // The collector opened it by its PID, between two looks at whose that is.
    if generation(service, directory, id)? != before {
        return Err(Errno::SRCH.into());
    }
    if let Some(generation) = before {
        let known = (generation, Arc::clone(&file));
        service.handed.0.insert(id, known);
    }
    Ok(file)
}

/// Returns which exec the process is in, as far as we may know. Errors: it is not `id`.
fn generation(
    service: &mut Service,
    directory: BorrowedFd<'_>,
    id: ProcessId,
) -> io::Result<Option<Generation>> {
    let stat = stat::parse(service.reader.read(directory, "stat")?);
    let stat = stat.filter(|stat| stat.start_time_ticks == id.start_time_ticks);
    let stat = stat.ok_or(Errno::SRCH)?;
    let exe = read_link(directory, "exe").ok();
    Ok(exe.and_then(|exe| Generation::of(&exe, stat.start_stack)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::AtomicU32;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::helper::link::Link;
    use crate::memory::wire::{self, Piece, Request};
    use helper::Register;

    static WORDS: [AtomicU32; 6] = [const { AtomicU32::new(7) }; 6];

    /// Asks for two words of ours, and answers questions with `memory`. Returns how many there were, and the words.
    fn ask(link: &mut Link, memory: Option<&File>) -> (u32, Vec<Result<u32, Errno>>) {
        let pid = rustix::process::getpid().as_raw_pid();
        let machine = crate::Machine::local(crate::StackSettings {
            source: crate::StackSource::Off,
            timeout: Duration::from_secs(5),
            nonblocking: true,
            max_parallel: 1,
        });
        let words = [0, 1].map(|index| WORDS[index].as_ptr() as u64);
        let task = Task::Connections {
            arguments: Vec::new(),
            maps: false,
            words: words.to_vec(),
        };
        let id = machine.identify(pid).unwrap();
        let request = Request {
            jobs: &[Job { id, task }][..],
            names: Vec::new(),
            proc: "/proc".into(),
        };
        let until = Instant::now() + Duration::from_mins(1);
        link.ask(&wire::encode(&request).unwrap(), until).unwrap();
        let (mut questions, mut read) = (0, Vec::new());
        loop {
            for (_, piece) in wire::pieces(&link.answer(until).unwrap()).unwrap() {
                match piece {
                    Piece::NeedsMemory => {
                        questions += 1;
                        link.hand(memory, until).unwrap();
                    }
                    Piece::Word(_, word) => read.push(match word.map_err(io::Error::from) {
                        Ok(words) => Ok(words.value),
                        Err(error) => Err(Errno::from_io_error(&error).unwrap()),
                    }),
                    Piece::Done => return (questions, read),
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn a_memory_is_asked_for_until_it_is_handed_and_kept_then() {
        let until = Instant::now() + Duration::from_mins(1);
        let (program, register) = (crate::tests::handed::program(), Register::default());
        let mut link = Link::start(&program, &register, wire::PROTOCOL, until).unwrap();
        let refused = (1, vec![Err(Errno::ACCESS); 2]);
        assert_eq!(ask(&mut link, None), refused, "nothing was handed");
        assert_eq!(ask(&mut link, None), refused);
        let pid = rustix::process::getpid().as_raw_pid();
        let memory = passing::open_memory_of(Path::new("/proc"), pid).unwrap();
        assert_eq!(ask(&mut link, Some(&memory)), (1, vec![Ok(7); 2]));
        assert_eq!(ask(&mut link, None), (0, vec![Ok(7); 2]), "it is kept");
    }
}
