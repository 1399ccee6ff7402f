//! statvfs(3) with a deadline.
//!
//! A network or FUSE file system whose server is gone answers never, and no signal ends the call. So a thread of its
//! own asks. When it gets no answer it is abandoned, and that path is left alone until the abandoned call has returned.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::fs::{StatVfs, statvfs};

/// How long a file system may take; and every further one in the same capture.
const PATIENCE: Duration = Duration::from_millis(500);
const SHORT_PATIENCE: Duration = Duration::from_millis(50);

const STACK_BYTES: usize = 128 << 10;

/// A path whose file system is asked.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) path: PathBuf,
    /// Whether the nearest directory above it answers for a path that does not exist.
    pub(super) or_above: bool,
}

/// What came of a question.
pub(super) enum Answer {
    Facts(StatVfs),
    Failed(io::Error),
    /// There was no answer in time.
    Blocked,
    /// An earlier call waits still.
    StillBlocked,
}

type Call = fn(&Path) -> io::Result<StatVfs>;

/// Asks file systems, and remembers which ones do not answer.
#[derive(Debug)]
pub(crate) struct Asker {
    blocked: Arc<Mutex<BTreeSet<PathBuf>>>,
    call: Call,
    patience: Duration,
}

/// Where a thread is.
#[derive(Debug, Default)]
struct Progress {
    current: Option<usize>,
    is_abandoned: bool,
}

impl Default for Asker {
    fn default() -> Self {
        Self {
            blocked: Arc::default(),
            call: |path| Ok(statvfs(path)?),
            patience: PATIENCE,
        }
    }
}

impl Asker {
    /// Returns an answer for each of `questions`.
    pub(super) fn ask(&self, questions: &[Question]) -> Vec<Answer> {
        let blocked = lock(&self.blocked).clone();
        let is_blocked = |question: &Question| blocked.contains(&question.path);
        let asked: Vec<usize> = (0..questions.len())
            .filter(|&index| !is_blocked(&questions[index]))
            .collect();
        let mut answers: Vec<Answer> = questions.iter().map(|_| Answer::StillBlocked).collect();
        let mut patience = self.patience;
        let mut next = 0;
        while next < asked.len() {
            let progress = Arc::new(Mutex::new(Progress::default()));
            let rest: Vec<(usize, Question)> = asked[next..]
                .iter()
                .map(|&index| (index, questions[index].clone()))
                .collect();
            let receiver = match self.start(rest, &progress) {
                Ok(receiver) => receiver,
                Err(error) => {
                    for &index in &asked[next..] {
                        answers[index] = Answer::Failed(io::Error::from(error.kind()));
                    }
                    break;
                }
            };
            let Some(index) = self.collect(&receiver, &progress, patience, questions, &mut answers)
            else {
                break;
            };
            answers[index] = Answer::Blocked;
            next = asked
                .iter()
                .position(|&one| one == index)
                .map_or(asked.len(), |at| at + 1);
            patience = SHORT_PATIENCE;
        }
        answers
    }

    /// Takes answers until all are there, or returns which question has none.
    fn collect(
        &self,
        receiver: &Receiver<(usize, io::Result<StatVfs>)>,
        progress: &Mutex<Progress>,
        patience: Duration,
        questions: &[Question],
        answers: &mut [Answer],
    ) -> Option<usize> {
        loop {
            match receiver.recv_timeout(patience) {
                Ok((index, answer)) => {
                    answers[index] = answer.map_or_else(Answer::Failed, Answer::Facts);
                }
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {
                    let mut progress = lock(progress);
                    if let Some(index) = progress.current {
                        progress.is_abandoned = true;
                        lock(&self.blocked).insert(questions[index].path.clone());
                        return Some(index);
                    }
                }
            }
        }
    }

    /// Starts a thread, which is never joined: it may be blocked for ever.
    fn start(
        &self,
        questions: Vec<(usize, Question)>,
        progress: &Arc<Mutex<Progress>>,
    ) -> io::Result<Receiver<(usize, io::Result<StatVfs>)>> {
        let (sender, receiver) = channel();
        let (call, blocked) = (self.call, Arc::clone(&self.blocked));
        let progress = Arc::clone(progress);
        std::thread::Builder::new()
            .name("taskscope-statfs".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || work(&questions, call, &progress, &blocked, &sender))?;
        Ok(receiver)
    }
}

fn work(
    questions: &[(usize, Question)],
    call: Call,
    progress: &Mutex<Progress>,
    blocked: &Mutex<BTreeSet<PathBuf>>,
    sender: &Sender<(usize, io::Result<StatVfs>)>,
) {
    for (index, question) in questions {
        lock(progress).current = Some(*index);
        let answer = answer(question, call);
        let mut progress = lock(progress);
        if progress.is_abandoned {
            lock(blocked).remove(&question.path);
            return;
        }
        // Sent before it is no longer the current one, so that who waits misses nothing.
        _ = sender.send((*index, answer));
        progress.current = None;
    }
}

fn answer(question: &Question, call: Call) -> io::Result<StatVfs> {
    let mut answer = call(&question.path);
    if question.or_above {
        for above in question.path.ancestors().skip(1) {
            if !matches!(&answer, Err(error) if error.kind() == io::ErrorKind::NotFound) {
                break;
            }
            answer = call(above);
        }
    }
    answer
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, mkfifoat};
    use std::time::Instant;
    use testkit::{DEADLINE, wait_until};

    fn question(path: &Path) -> Question {
        Question {
            path: path.to_owned(),
            or_above: false,
        }
    }

    /// Opening a FIFO waits for a writer as long as a dead file system does.
    fn opening(path: &Path) -> io::Result<StatVfs> {
        std::fs::File::open(path)?;
        Ok(statvfs(path)?)
    }

    #[test]
    fn a_file_system_that_does_not_answer_costs_its_own_answer_and_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let fifo = directory.path().join("dead");
        mkfifoat(CWD, &fifo, 0o600.into()).unwrap();
        let questions = [
            question(directory.path()),
            question(&fifo),
            question(directory.path()),
        ];
        // On a busy machine the others may be slow once.
        let mut asker = Asker::default();
        wait_until(DEADLINE, || {
            asker = Asker {
                call: opening,
                patience: Duration::from_millis(100),
                ..Asker::default()
            };
            let answers = asker.ask(&questions);
            matches!(
                &answers[..],
                [Answer::Facts(_), Answer::Blocked, Answer::Facts(_)]
            )
        });

        // It is left alone as long as the first call waits …
        asker.patience = 2 * DEADLINE;
        let begun = Instant::now();
        let answers = asker.ask(&questions);
        assert!(matches!(answers[1], Answer::StillBlocked));
        assert!(begun.elapsed() < DEADLINE);

        // … and asked again when that has returned.
        std::fs::OpenOptions::new().write(true).open(&fifo).unwrap();
        std::fs::remove_file(&fifo).unwrap();
        std::fs::write(&fifo, "").unwrap();
        wait_until(DEADLINE, || {
            matches!(asker.ask(&questions)[1], Answer::Facts(_))
        });
    }

    #[test]
    fn the_nearest_directory_answers_for_a_path_that_is_made_later() {
        let directory = tempfile::tempdir().unwrap();
        let later = directory.path().join("a/b");
        let asker = Asker::default();
        let mut asked = question(&later);
        assert!(matches!(
            asker.ask(&[asked.clone()])[..],
            [Answer::Failed(_)]
        ));
        asked.or_above = true;
        assert!(matches!(asker.ask(&[asked])[..], [Answer::Facts(_)]));
    }
}
