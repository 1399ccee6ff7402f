//! A database in a file stays locked.

use model::FileLock;

use super::Rule;
use crate::case::{Node, PATIENCE};
use crate::motion::Motion;
use crate::scene::Scene;
use crate::verdict::{Cause, State, Verdict};
use crate::wait::Wait;
use crate::words;

pub(super) const RULE: Rule = Rule {
    name: "database-locked",
    needs: "which bytes of databases of SQLite are locked for writing and by whom, who has them open, over three intervals",
    proves: "a process sleeps and looks again in one call with a database open that another has locked, no thread of which ran",
    refuted_by: "the holder runs, sleeps for a time, or waits for the one that looks again",
    holds,
};

/// The byte that `SQLite` locks before it writes to a database, and the next: `PENDING_BYTE` and `RESERVED_BYTE` of `os.h`.
const OF_FILE: [u64; 2] = [0x4000_0000, 0x4000_0001];
/// The byte of the `-shm` file that the only writer of a write-ahead log locks: `WAL_WRITE_LOCK` of `wal.c`.
const OF_LOG: u64 = 120;
const LOG: &str = "-shm";

fn holds(scene: &Scene<'_>) -> Result<Vec<Verdict>, String> {
    let case = &scene.case;
    for (node, it) in case
        .nodes
        .iter()
        .enumerate()
        .filter(|(_, it)| it.is_patient())
    {
        for (index, lock) in it.newest().ipc.locks.iter().enumerate() {
            let Some((path, holder)) = database(it, lock) else {
                continue;
            };
            let victims = case.those(|actor| {
                case.actors[actor].node == node && looks_again(scene, actor, holder, path)
            });
            if victims.is_empty() || !stands(scene, holder) {
                continue;
            }
            scene.must_stand()?;
            return Ok(vec![found(scene, (node, index), (path, holder), &victims)]);
        }
    }
    Err("nobody looks again at a database that one who stands still has locked".to_owned())
}

/// The file and the holder of a lock that keeps all others from writing to a database.
fn database<'a>(node: &Node<'_>, lock: &'a FileLock) -> Option<(&'a str, usize)> {
    let path = lock.path.as_deref()?;
    let is_log = lock.start == OF_LOG && path.ends_with(LOG);
    let writes = lock.access == "WRITE" && (OF_FILE.contains(&lock.start) || is_log);
    let holder = node.by_identity.get(&lock.holder?)?;
    writes.then_some((path, *holder))
}

/// Whether no thread of a process ran, and none may by itself.
fn stands(scene: &Scene<'_>, holder: usize) -> bool {
    let it = &scene.case.actors[holder];
    it.motion() == Motion::Still && it.wait != Wait::Sleep && scene.hope(holder).is_none()
}

/// Whether a process with that file open is at one line all the time and wakes again and again; not one that the holder waits for.
fn looks_again(scene: &Scene<'_>, actor: usize, holder: usize, path: &str) -> bool {
    let it = &scene.case.actors[actor];
    let mut descriptors = it.process.proc.file_descriptors.iter();
    let is_waited_for = || {
        let edge = scene.graph.edge(holder);
        edge.is_some_and(|edge| edge.wakers.contains(&actor))
    };
    // A loop that tries again stands at the attempt or at the sleep after it.
    let is_there = it.stands() || it.seen.is_some_and(|seen| seen.same_for >= PATIENCE);
    actor != holder
        && it.motion() == Motion::Idle
        && is_there
        && matches!(it.wait, Wait::Sleep | Wait::Running)
        && descriptors.any(|it| it.target == path)
        && !is_waited_for()
}

fn found(
    scene: &Scene<'_>,
    (node, lock): (usize, usize),
    (path, holder): (&str, usize),
    victims: &[usize],
) -> Verdict {
    let case = &scene.case;
    let first = victims[0];
    let summary = format!(
        "{} has locked the database {}{} and does not get on; {} sleep{} and look{} again{}.",
        words::who(case, holder),
        words::safe(path),
        words::at_actor(case, holder),
        words::many(case, victims),
        if victims.len() == 1 { "s" } else { "" },
        if victims.len() == 1 { "s" } else { "" },
        words::at_actor(case, first),
    );
    let keys = ["holder", "path", "access", "start"];
    let locked = keys
        .iter()
        .filter_map(|key| case.cite_newest(node, &format!("/ipc/locks/{lock}/{key}")));
    let claim = scene
        .claim(State::Hung, Cause::FileLock)
        .by(holder)
        .holding_up(victims);
    claim
        .shown_by(locked.collect::<Vec<_>>())
        .shown_by(scene.standing(holder))
        .shown_by(scene.standing_of_some(victims))
        .say(summary)
}
