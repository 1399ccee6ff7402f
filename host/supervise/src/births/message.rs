//! The messages of the process connector: `linux/netlink.h`, `linux/connector.h` and `linux/cn_proc.h`, in the machine's byte order.

use std::time::Duration;

/// Room for one message of the kernel: 16 bytes of netlink, 20 of the connector, 40 of the event, and some for later versions.
pub(super) const MESSAGE_SIZE: usize = 256;

/// Where the connector has the number of a question, and one more in its answer; its other number the kernel overwrites.
const ACKNOWLEDGEMENT: usize = 28;
/// Where the event begins.
const EVENT: usize = 36;
/// Where what is told of it begins: after the kind, the CPU and the time.
const FACTS: usize = EVENT + 16;

/// `PROC_EVENT_NONE`: an answer to what we have sent.
const ANSWER: u32 = 0;
/// `PROC_EVENT_FORK`
const FORK: u32 = 1;
/// `PROC_EVENT_EXIT`
const EXIT: u32 = 0x8000_0000;

/// What the kernel tells. Times are those of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// To a question.
    Answer {
        /// Why it refuses, or 0.
        errno: u32,
        /// The number of the question, which may be somebody else's: whoever listens is told all answers.
        question: u32,
        at: Duration,
    },
    /// A process was forked by `parent`, or in its name (`CLONE_PARENT`).
    Fork {
        parent: i32,
        child: i32,
        at: Duration,
    },
    /// The first thread of a process has ended, which nearly always is its end.
    Exit {
        pid: i32,
        /// As `waitpid(2)` would say it.
        status: i32,
        at: Duration,
    },
    /// Of another thread, or of no interest.
    Other,
}

/// `PROC_EVENT_ALL`: every event that Linux 6.6 knows.
pub(super) const ALL: u32 = 0xe000_03c7;
/// What we use.
pub(super) const FORKS_AND_EXITS: u32 = FORK | EXIT;

/// Returns the message that asks for `events`: `struct proc_input` with `PROC_CN_MCAST_LISTEN`.
pub(super) fn question(events: u32, number: u32) -> Vec<u8> {
    const LISTEN: u32 = 1;
    /// `CN_IDX_PROC` and `CN_VAL_PROC`
    const ID: [u32; 2] = [1, 1];
    /// `NLMSG_DONE`
    const DONE: u16 = 3;
    let length: u16 = 8;
    let mut bytes = Vec::with_capacity(44);
    bytes.extend((16 + 20 + u32::from(length)).to_ne_bytes());
    bytes.extend(DONE.to_ne_bytes());
    bytes.extend([0; 2 + 4 + 4]); // flags, sequence, port
    bytes.extend(ID.map(u32::to_ne_bytes).concat());
    bytes.extend([0; 4]); // sequence
    bytes.extend(number.to_ne_bytes());
    bytes.extend(length.to_ne_bytes());
    bytes.extend([0; 2]); // flags
    bytes.extend(LISTEN.to_ne_bytes());
    bytes.extend(events.to_ne_bytes());
    bytes
}

/// Returns what a message says; one that is cut says nothing.
pub(super) fn parse(bytes: &[u8]) -> Event {
    read(bytes).unwrap_or(Event::Other)
}

fn read(bytes: &[u8]) -> Option<Event> {
    let word = |at: usize| {
        let bytes = bytes.get(at..at + 4)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    };
    let fact = |index: usize| word(FACTS + 4 * index);
    let number = |index: usize| Some(fact(index)?.cast_signed());
    let time = bytes.get(EVENT + 8..EVENT + 16)?;
    let at = Duration::from_nanos(u64::from_ne_bytes(time.try_into().ok()?));
    Some(match word(EVENT)? {
        ANSWER => Event::Answer {
            errno: fact(0)?,
            question: word(ACKNOWLEDGEMENT)?.wrapping_sub(1),
            at,
        },
        // Parent's thread and process, then the child's: of a thread these two differ.
        FORK if fact(2)? == fact(3)? => Event::Fork {
            parent: number(1)?,
            child: number(3)?,
            at,
        },
        EXIT if fact(0)? == fact(1)? => Event::Exit {
            pid: number(1)?,
            status: number(2)?,
            at,
        },
        _ => Event::Other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u32, facts: &[u32]) -> Vec<u8> {
        let mut bytes = vec![0; EVENT];
        bytes[ACKNOWLEDGEMENT..][..4].copy_from_slice(&7_u32.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(7_000_000_000_u64.to_ne_bytes());
        bytes.extend(facts.iter().flat_map(|fact| fact.to_ne_bytes()));
        bytes
    }

    #[test]
    fn forks_and_exits_are_told_of_processes_and_not_of_threads() {
        let at = Duration::from_secs(7);
        let told = |kind, facts: &[u32]| parse(&message(kind, facts));
        let fork = Event::Fork {
            parent: 3,
            child: 9,
            at,
        };
        assert_eq!(told(FORK, &[4, 3, 9, 9]), fork);
        assert_eq!(told(FORK, &[4, 3, 10, 9]), Event::Other);
        let exit = Event::Exit {
            pid: 9,
            status: 0x300,
            at,
        };
        assert_eq!(told(EXIT, &[9, 9, 0x300, 17, 3, 3]), exit);
        assert_eq!(told(EXIT, &[10, 9, 0, u32::MAX, 3, 3]), Event::Other);
        let answer = Event::Answer {
            errno: 1,
            question: 6,
            at,
        };
        assert_eq!(told(ANSWER, &[1]), answer);
        assert_eq!(told(2, &[9, 9]), Event::Other);
    }

    #[test]
    fn what_is_cut_says_nothing() {
        let whole = message(FORK, &[4, 3, 9, 9]);
        for length in 0..whole.len() {
            assert_eq!(parse(&whole[..length]), Event::Other, "{length}");
        }
    }

    #[test]
    fn the_question_is_as_long_as_it_says() {
        let question = question(FORKS_AND_EXITS, 7);
        assert_eq!(question.len(), 44);
        assert_eq!(question[..4], 44_u32.to_ne_bytes());
        assert_eq!(question[ACKNOWLEDGEMENT..][..4], 7_u32.to_ne_bytes());
        assert_eq!(
            question[36..],
            [1_u32, 0x8000_0001].map(u32::to_ne_bytes).concat()
        );
    }
}
